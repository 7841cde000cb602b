// Package etcd_test tests a cluster whose etcd fails: members, connections and disks.
package etcd_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/proof/internal/network"
)

// another starts an API server that connects to a member without a proxy. It also returns that server's store.
func (e *etcdCluster) another(url string) (*millrace.Cluster, store.Store) {
	e.t.Helper()
	var log store.Store
	ctx := seam.Around(e.t.Context(), func(s store.Store) store.Store {
		log = s
		return s
	})
	o := e.options()
	o.Etcd.Servers = []string{url}
	c, err := millrace.Start(ctx, o)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			e.t.Error(err)
		}
	})
	return c, log
}

// tail is a watch that resumes where it ended, like those of clients, and checks that no event is missing.
type tail struct {
	t      *testing.T
	maps   corev1client.ConfigMapInterface
	names  chan string
	resume string
}

func (t *tail) run(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := t.maps.Watch(ctx, metav1.ListOptions{ResourceVersion: t.resume, AllowWatchBookmarks: true})
		if apierrors.IsResourceExpired(err) {
			t.t.Error("the watch cannot go on")
			return
		}
		if err != nil {
			time.Sleep(again)
			continue
		}
		for e := range stream.ResultChan() {
			o, ok := e.Object.(*corev1.ConfigMap)
			if !ok {
				break
			}
			t.resume = o.ResourceVersion
			if e.Type == watch.Added {
				t.names <- o.Name
			}
		}
		stream.Stop()
	}
}

// TestAnEtcdClusterMayLoseItsMembersAndConnections stops members and cuts connections. In all cases acknowledged writes
// are kept, a watch delivers each write once, and writes succeed as soon as most members are available.
func TestAnEtcdClusterMayLoseItsMembersAndConnections(t *testing.T) {
	e := startEtcdCluster(t, 3)
	c := millracetest.Start(t, e.options())
	config := c.Config()
	config.WrapTransport = network.WithoutRetryAfter
	maps := newMaps(t, config)
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &tail{t: t, maps: newMaps(t, config), names: make(chan string, 1000), resume: list.ResourceVersion}
	ended := make(chan struct{})
	go func() { defer close(ended); w.run(ctx) }()
	n := 0
	goesOn := func(what string) {
		t.Helper()
		n++
		name := fmt.Sprint("w", n)
		began := time.Now()
		for {
			_, err := maps.Create(t.Context(), configMapNamed(name), metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) { // the answer of an earlier attempt may have been lost
				break
			}
			if !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
				t.Errorf("%s: writing is answered with %v", what, err)
			}
			if time.Since(began) > 40*time.Second {
				t.Fatalf("%s: writes do not go on: %v", what, err)
			}
			time.Sleep(again)
		}
		if _, err := maps.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: reading what was written: %v", what, err)
		}
		select {
		case got := <-w.names:
			if got != name {
				t.Errorf("%s: the watch saw %s, not %s", what, got, name)
			}
		case <-time.After(40 * time.Second):
			t.Fatalf("%s: the watch does not see %s", what, name)
		}
		t.Logf("%s: goes on after %v", what, time.Since(began).Round(time.Millisecond))
	}
	goesOn("at first")

	first := e.leader()
	e.stop(first)
	goesOn("without its leader")
	e.start(first)
	goesOn("with all members again")

	follower := (e.leader() + 1) % 3
	e.stop(follower)
	goesOn("with one member gone")
	e.start(follower)
	goesOn("with all members once more")

	for _, m := range e.members {
		m.way.Cut(func() bool { return true })
	}
	goesOn("after all connections were cut")

	for i := range e.members {
		e.stop(i)
	}
	began := time.Now()
	if _, err := maps.Create(t.Context(), configMapNamed("never"), metav1.CreateOptions{}); !isAway(err) {
		t.Errorf("a write without etcd is answered with %v", err)
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); !isAway(err) {
		t.Errorf("a consistent list without etcd is answered with %v", err)
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); err != nil {
		t.Errorf("a list that may be old is answered with %v", err)
	}
	t.Logf("answers without etcd came after %v", time.Since(began).Round(time.Millisecond))
	if code := status(t, c, "/readyz"); code != http.StatusInternalServerError {
		t.Errorf("readyz says %d", code)
	}
	for i := range e.members {
		e.start(i)
	}
	goesOn("after all members were away")
	if code := status(t, c, "/readyz"); code != http.StatusOK {
		t.Errorf("readyz says %d", code)
	}
	cancel()
	<-ended
	select {
	case name := <-w.names:
		t.Errorf("the watch saw %s, too", name)
	default:
	}
}

// TestSomebodyElseMayCompactWhatWeHaveNotRead compacts history that the server has not read yet, so that it must fill
// its cache again.
func TestSomebodyElseMayCompactWhatWeHaveNotRead(t *testing.T) {
	e := startEtcdCluster(t, 1)
	config := millracetest.Start(t, e.options()).Config()
	maps := newMaps(t, config)
	stream, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	way := e.members[0].way
	way.Refuse(true)
	way.Cut(func() bool { return true })
	other, log := e.another(e.members[0].client.String())
	for _, name := range []string{"lost", "unseen"} { // the log can be resumed at the compacted revision, but not before
		if _, err := newMaps(t, other.Config()).Create(t.Context(), configMapNamed(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rev, err := log.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	way.Refuse(false)
	var found *corev1.ConfigMap
	for deadline := time.Now().Add(40 * time.Second); found == nil; time.Sleep(again) {
		if found, err = maps.Get(t.Context(), "unseen", metav1.GetOptions{}); err != nil {
			found = nil
			if !isAway(err) && !apierrors.IsNotFound(err) || time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	for e := range stream.ResultChan() {
		if o, ok := e.Object.(*corev1.ConfigMap); ok {
			t.Errorf("%s %s comes, though what was before it is not known", e.Type, o.Name)
			break
		}
	}
}

func TestAnEtcdWithCertificatesWantsOurs(t *testing.T) {
	e := startEtcdCluster(t, 1)
	o := e.options()
	o.Etcd.CertFile, o.Etcd.KeyFile = "", ""
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if c, err := millrace.Start(ctx, o); err == nil {
		c.Close()
		t.Error("a server without a certificate is let in")
	} else if !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "\n") {
		t.Errorf("it says %q", err)
	}
}

// again is the delay of clients before a retry.
const again = 10 * time.Millisecond

func isAway(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

func newMaps(t testing.TB, config *rest.Config) corev1client.ConfigMapInterface {
	t.Helper()
	k, err := corev1client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return k.ConfigMaps("default")
}

func configMapNamed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// status returns the status code of a path.
func status(t testing.TB, c *millrace.Cluster, path string) int {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.Config().CAData)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get(c.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}
