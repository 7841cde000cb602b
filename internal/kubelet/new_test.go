package kubelet

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/kubelet/runtimetest"
	"github.com/millrace/millrace/loop"
)

// closable is a runtime that counts how often it is closed.
type closable struct {
	*runtimetest.Runtime
	closed int
}

func (c *closable) Close() error {
	c.closed++
	return nil
}

func TestNewLeavesNothingOpenWhenItFails(t *testing.T) {
	file := func(o *Options, name string) string {
		path := filepath.Join(o.Root, name)
		if err := os.WriteFile(path, []byte("neither JSON nor a directory"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, spoil := range map[string]func(*Options){
		"the root directory is a file":        func(o *Options) { o.Root = file(o, "root") },
		"the plugins' directory is a file":    func(o *Options) { o.ServeDevices, o.DevicePlugins = true, file(o, "plugins") },
		"the record of claims cannot be read": func(o *Options) { file(o, "dra_state") },
		"there are no credential plugins":     func(o *Options) { o.CredentialPlugins = filepath.Join(o.Root, "missing.yaml") },
		"the server's address cannot be used": func(o *Options) { o.Server.Clients, o.Server.Listen = x509.NewCertPool(), "256.0.0.1:0" },
	} {
		t.Run(name, func(t *testing.T) {
			r := &closable{Runtime: runtimetest.New()}
			o := Options{Clients: loop.ClientsFor(fake.NewClientset()), Name: "node", Runtime: r, Root: t.TempDir(), Addresses: []string{"127.0.0.1"}}
			o.Server.Listen = "127.0.0.1:0"
			spoil(&o)
			if _, err := New(o); err == nil || r.closed != 1 {
				t.Errorf("the error is %v, and the runtime was closed %d times", err, r.closed)
			}
		})
	}
}
