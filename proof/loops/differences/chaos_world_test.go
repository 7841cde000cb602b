package differences_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/faults"
	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/certificates"
	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/loop"
)

// schedulerName is the scheduler's among the names of loops.
const schedulerName = "kube-scheduler"

// faulty is a world in which our loops and our scheduler are a program of their own, all of whose requests go through a
// transport with faults. When it crashes it is started again, with nothing but what the API has.
func faulty(t testing.TB, nodes int, transport *faults.Transport) *world {
	w, cluster := newWorld(t, millrace.Options{Listen: "none", Nodes: nodes, Controllers: []string{}, ControllersElsewhere: true, NoScheduler: true})
	w.patience = time.Hour
	t.Cleanup(w.nothingRefused)
	w.furnish()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := transport.Run(ctx, func(ctx context.Context) error { return runLoops(ctx, cluster, transport) }); err != nil {
			t.Errorf("the loops have ended: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return w
}

// runLoops runs all loops and the scheduler until the context ends.
func runLoops(ctx context.Context, cluster *millrace.Cluster, transport *faults.Transport) error {
	config := cluster.InProcess()
	config.Transport = named{transport, config.Transport}
	clients, err := loop.NewClients(config, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	clients.SetAlone()
	group := &loop.Group{Clients: clients.As(controllers.Program), Entries: allLoops(), Select: append([]string{"*"}, offByDefault()...), Identify: withName}
	placing := scheduler.New(scheduler.For(clients))
	return loop.Run(ctx, clients, group, loop.Func(func(ctx context.Context) error { return placing.Run(withName(ctx, schedulerName)) }))
}

func allLoops() []loop.Entry {
	o := controllers.Options{RootCA: ca().pem, Signing: certificates.Signing{Authority: func() (certificates.Authority, error) { return ca().Authority, nil }}}
	o.Making.Key = ca().Key
	o.Volumes.Class = "standard"
	o.Ranges.ClusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.128.0.0/16")}
	return controllers.All(o)
}

func offByDefault() []string {
	_, off := loop.Names(allLoops())
	return off
}

// authority is a CA that lives as long as the test.
type authority struct {
	certificates.Authority
	pem []byte
}

var ca = sync.OnceValue(func() authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return authority{certificates.Authority{Certificate: certificate, Key: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
})

// loopKey is the key of a loop's name in the contexts of its requests.
type loopKey struct{}

func withName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, loopKey{}, name)
}

// named gives each request to the faults with the name of its loop, and sends it with the loop's account.
type named struct {
	faults *faults.Transport
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	name, _ := r.Context().Value(loopKey{}).(string)
	return n.faults.WrapAs(cmp.Or(name, controllers.Program))(account{name, n.next}).RoundTrip(r)
}

// account sends a request as the user that a loop is.
type account struct {
	loop string
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a account) RoundTrip(r *http.Request) (*http.Response, error) {
	user := "system:" + controllers.Program
	switch {
	case a.loop == schedulerName:
		user = "system:" + schedulerName
	case a.loop != "" && controllers.Account(a.loop) != "":
		user = "system:serviceaccount:kube-system:" + controllers.Account(a.loop)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Impersonate-User", user)
	return a.next.RoundTrip(r)
}

// furnish makes what loops look for in namespaces of the system.
func (w *world) furnish() {
	for path, body := range map[string]string{
		"/api/v1/namespaces":                        `{"metadata":{"name":"kube-public"}}`,
		"/api/v1/namespaces/kube-public/configmaps": `{"metadata":{"name":"cluster-info"},"data":{"kubeconfig":"where"}}`,
		"/api/v1/namespaces/kube-system/secrets": `{"metadata":{"name":"bootstrap-token-aaaaaa"},"type":"bootstrap.kubernetes.io/token","stringData":{"token-id":"aaaaaa","token-secret":"0123456789abcdef",` +
			`"usage-bootstrap-signing":"true","expiration":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}}`,
	} {
		w.send(http.MethodPost, path, "application/json", []byte(body))
	}
}

// furniture is what furnish has made, and what became of it.
func (w *world) furniture() state {
	out := state{}
	n := &names{ns: "kube-public"}
	for resource, ns := range map[string]string{"configmaps": "kube-public", "secrets": "kube-system"} {
		for _, o := range w.list(resource, ns) {
			if name := nameOf(o); slices.Contains([]string{"cluster-info", "bootstrap-token-aaaaaa"}, name) {
				flatten(out, resource+"/"+name+" ", n.object(resource, copied(o)))
			}
		}
	}
	return out
}
