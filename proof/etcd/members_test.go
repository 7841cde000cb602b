package etcd_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/pki"
	"github.com/millrace/millrace/proof/internal/network"
)

// etcdCluster is an etcd cluster of several members, set up as people run it: with certificates on every side.
type etcdCluster struct {
	t         testing.TB
	keys      *pki.Keys
	directory string
	members   []*etcdMember
}

type etcdMember struct {
	client, peer url.URL
	way          *network.Proxy // between the API server and the member
	running      *embed.Etcd
}

func startEtcdCluster(t testing.TB, size int) *etcdCluster {
	t.Helper()
	e := &etcdCluster{t: t, directory: t.TempDir()}
	var err error
	if e.keys, err = pki.Open(filepath.Join(e.directory, "pki"), []string{"127.0.0.1"}, time.Now()); err != nil {
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
		m.way = network.New(t, m.client.Host)
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

func (e *etcdCluster) file(name string) string { return filepath.Join(e.directory, name) }

// free returns an unused address.
func (e *etcdCluster) free(scheme string) url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	defer l.Close()
	return url.URL{Scheme: scheme, Host: l.Addr().String()}
}

// start starts a member with its data. It does not wait until the member is ready.
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

// stop ends a member as a crash does.
func (e *etcdCluster) stop(i int) {
	if m := e.members[i]; m.running != nil {
		m.running.Server.HardStop() // otherwise Close would wait for watches
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

// options returns the options of an API server with this cluster.
func (e *etcdCluster) options() millrace.Options {
	o := millrace.Options{Controllers: []string{}, NoScheduler: true, CompactEvery: -1}
	for _, m := range e.members {
		o.Etcd.Servers = append(o.Etcd.Servers, "https://"+m.way.Address())
	}
	o.Etcd.CAFile, o.Etcd.CertFile, o.Etcd.KeyFile = e.file("ca.crt"), e.file("client.crt"), e.file("client.key")
	o.Serving.BookmarkPeriod, o.Serving.RequestTimeout = 50*time.Millisecond, 3*time.Second
	return o
}
