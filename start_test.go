package millrace_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/store"
)

// refusing is a store that refuses to create what a key has a part of.
type refusing struct {
	store.Store
	part string
}

func (r refusing) Create(ctx context.Context, key string, value []byte, ttl time.Duration, when ...store.Condition) (store.Revision, error) {
	if strings.Contains(key, r.part) {
		return 0, errors.New("the disk refuses " + r.part)
	}
	return r.Store.Create(ctx, key, value, ttl, when...)
}

// Each case breaks another part, or another step of one, so that all parts before it have been started.
func TestAStartThatFailsLeavesNothingBehind(t *testing.T) {
	const missing = "missing.file"
	for _, broken := range []struct {
		part, why string
		breaks    func(*millrace.Options)
		refused   string // what the store refuses
	}{
		{"address", "is not an address that pods can reach", func(o *millrace.Options) { o.Advertise = "127.0.0.1" }, ""},
		{"storage", missing, func(o *millrace.Options) { o.Encryption.File = missing }, ""},
		{"storage", "unknown api groups", func(o *millrace.Options) { o.RuntimeConfig = map[string]string{"nobody/v1": "true"} }, ""},
		{"access", "failed to load SNI cert and key: open " + missing, func(o *millrace.Options) {
			o.Serving.TLS.Named = []millrace.NamedCertificateFiles{{CertFile: missing, KeyFile: missing}}
		}, ""},
		{"access", missing, func(o *millrace.Options) { o.AuthorizationConfig = missing }, ""},
		{"access", missing, func(o *millrace.Options) { o.Authentication.ConfigFile = missing }, ""},
		{"access", missing, func(o *millrace.Options) { o.Authentication.ProxyCAFile = missing }, ""},
		{"plugins", missing, func(o *millrace.Options) { o.Admission.ConfigFile = missing }, ""},
		{"plugins", "node ports", func(o *millrace.Options) { o.NodePorts = millrace.PortRange{First: 2, Last: 1} }, ""},
		{"objects", "the disk refuses /namespaces/", nil, "/namespaces/"},
		{"objects", "the disk refuses /flowschemas/", nil, "/flowschemas/"},
		{"extensions", "the disk refuses /extension-apiserver-authentication", nil, "/extension-apiserver-authentication"},
		{"extensions", "the disk refuses /apiregistration.k8s.io/", nil, "/apiregistration.k8s.io/"},
		{"web", missing, func(o *millrace.Options) { o.Serving.KubeletCAFile = missing }, ""},
		{"web", "the format \"poem\"", func(o *millrace.Options) {
			o.Audit.Events, o.Audit.Log = func([]byte) {}, millrace.AuditFileOptions{Path: filepath.Join(t.TempDir(), "log"), Format: "poem"}
		}, ""},
		{"loops", "nobody", func(o *millrace.Options) { o.Controllers = []string{"nobody"} }, ""},
	} {
		t.Run(broken.part, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			o := millrace.Options{Data: t.TempDir(), Listen: freeAddress(t), Nodes: 1}
			whole := o
			ctx := t.Context()
			if broken.breaks != nil {
				broken.breaks(&o)
			} else {
				ctx = seam.Around(ctx, func(s store.Store) store.Store { return refusing{s, broken.refused} })
			}
			c, err := millrace.Start(ctx, o)
			if err == nil {
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), broken.why) {
				t.Fatalf("it is started: %v", err)
			}
			goleak.VerifyNone(t, before)
			if c, err = millrace.Start(t.Context(), whole); err != nil { // the port and the data directory are free
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			goleak.VerifyNone(t, before)
		})
	}
}

// freeAddress returns an address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
