package millrace_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/pki"
)

// etcdCluster is an etcd of several members, as people run it beside their API servers: with certificates on every side.
type etcdCluster struct {
	t       testing.TB
	keys    *pki.Keys
	folder  string
	members []*etcdMember
}

type etcdMember struct {
	client, peer url.URL
	way          *network // between the API server and the member
	running      *embed.Etcd
}

func startEtcdCluster(t testing.TB, size int) *etcdCluster {
	t.Helper()
	e := &etcdCluster{t: t, folder: t.TempDir()}
	var err error
	if e.keys, err = pki.Open(filepath.Join(e.folder, "pki"), []string{"127.0.0.1"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	client, err := e.keys.Client("apiserver", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ca.crt": e.keys.Authority.CertPEM, "client.crt": client.CertPEM, "client.key": client.KeyPEM,
		"server.crt": e.keys.Serving.CertPEM, "server.key": e.keys.Serving.KeyPEM} {
		if err := os.WriteFile(e.file(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range size {
		m := &etcdMember{client: e.free("https"), peer: e.free("http")}
		m.way = newNetwork(t, m.client.Host)
		e.members = append(e.members, m)
	}
	for i := range e.members {
		e.start(i)
	}
	for _, m := range e.members {
		<-m.running.Server.ReadyNotify()
	}
	t.Cleanup(func() {
		for i := range e.members {
			e.stop(i)
		}
	})
	return e
}

func (e *etcdCluster) file(name string) string { return filepath.Join(e.folder, name) }

// free is an address that nobody uses.
func (e *etcdCluster) free(scheme string) url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	defer l.Close()
	return url.URL{Scheme: scheme, Host: l.Addr().String()}
}

// start starts a member, on what it has kept. It does not wait until it is ready.
func (e *etcdCluster) start(i int) {
	m := e.members[i]
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = fmt.Sprint("m", i), e.file(fmt.Sprint("member", i))
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{m.client}, []url.URL{m.client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{m.peer}, []url.URL{m.peer}
	cfg.ClientTLSInfo = transport.TLSInfo{CertFile: e.file("server.crt"), KeyFile: e.file("server.key"), ClientCertFile: e.file("client.crt"), ClientKeyFile: e.file("client.key"),
		TrustedCAFile: e.file("ca.crt"), ClientCertAuth: true}
	var all []string
	for j, m := range e.members {
		all = append(all, fmt.Sprintf("m%d=%s", j, m.peer.String()))
	}
	cfg.InitialCluster = strings.Join(all, ",")
	cfg.TickMs, cfg.ElectionMs = 50, 500
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	var err error
	for range 50 { // the port of a member that has just ended
		if m.running, err = embed.StartEtcd(cfg); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	e.t.Fatal(err)
}

// stop ends a member as a crash would.
func (e *etcdCluster) stop(i int) {
	if m := e.members[i]; m.running != nil {
		m.running.Server.HardStop() // or else Close would wait for watches
		m.running.Close()
		m.running = nil
	}
}

func (e *etcdCluster) leader() int {
	for i, m := range e.members {
		if m.running != nil && m.running.Server.Leader() == m.running.Server.MemberID() {
			return i
		}
	}
	return -1
}

// options are those of an API server on the cluster.
func (e *etcdCluster) options() millrace.Options {
	o := millrace.Options{Controllers: []string{}, NoScheduler: true, CompactEvery: -1}
	for _, m := range e.members {
		o.Etcd.Servers = append(o.Etcd.Servers, "https://"+m.way.address())
	}
	o.Etcd.CAFile, o.Etcd.CertFile, o.Etcd.KeyFile = e.file("ca.crt"), e.file("client.crt"), e.file("client.key")
	o.Serving.BookmarkPeriod, o.Serving.RequestTimeout = 50*time.Millisecond, 3*time.Second
	return o
}

// tail is a watch that goes on wherever it was, as clients' do, and checks that nothing is left out.
type tail struct {
	t      *testing.T
	maps   corev1client.ConfigMapInterface
	names  chan string
	resume string
}

func (w *tail) run(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := w.maps.Watch(ctx, metav1.ListOptions{ResourceVersion: w.resume, AllowWatchBookmarks: true})
		if apierrors.IsResourceExpired(err) {
			w.t.Error("the watch cannot go on")
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
			w.resume = o.ResourceVersion
			if e.Type == watch.Added {
				w.names <- o.Name
			}
		}
		stream.Stop()
	}
}

// TestAnEtcdClusterMayLoseItsMembersAndConnections takes a cluster through what clusters go through. Whatever happens, what
// was acknowledged is there, each write is seen once by a watch, and writes go on as soon as most members are there.
func TestAnEtcdClusterMayLoseItsMembersAndConnections(t *testing.T) {
	e := startEtcdCluster(t, 3)
	c := start(t, e.options())
	config := c.Config()
	config.WrapTransport = impatient
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
			if err == nil || apierrors.IsAlreadyExists(err) { // an answer may have been lost
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
		m.way.cut(func() bool { return true })
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

// TestSomebodyElseMayCompactWhatWeHaveNotRead lets history go that the server has yet to read, so that it must fill its cache
// again.
func TestSomebodyElseMayCompactWhatWeHaveNotRead(t *testing.T) {
	e := startEtcdCluster(t, 1)
	config := start(t, e.options()).Config()
	maps := newMaps(t, config)
	stream, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	way := e.members[0].way
	way.away.Store(true)
	way.cut(func() bool { return true })
	other := start(t, func() millrace.Options {
		o := e.options()
		o.Etcd.Servers = []string{e.members[0].client.String()}
		return o
	}())
	for _, name := range []string{"lost", "unseen"} { // the log can be resumed at what is compacted, but not before
		if _, err := newMaps(t, other.Config()).Create(t.Context(), configMapNamed(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rev, err := other.Store().Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Store().Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	way.away.Store(false)
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

// status is how a path is answered.
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
