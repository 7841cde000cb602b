package plugins

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/admission/manifests"
	"github.com/millrace/millrace/internal/server/admission/policies"
	"github.com/millrace/millrace/internal/server/admission/webhooks"
	"github.com/millrace/millrace/internal/server/metrics"
	"github.com/millrace/millrace/internal/server/outward"
	"github.com/millrace/millrace/internal/server/ownership"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/webhook"
)

// configured makes the client for webhooks, and the plugins that objects of the cluster configure, in their order.
func (p *Plugins) configured(set admission.Configuration, l *assembly.List) ([]registry.Admission, error) {
	files, err := p.configure(set, l)
	if err != nil {
		return nil, err
	}
	reg, measured := p.storage.Registry, metrics.NewAdmission()
	p.o.Metrics.MustRegister(measured)
	o := webhook.Options{Registry: reg}
	if p.o.Inward {
		o.Dial = outward.Refuse
	}
	p.Webhooks = webhook.New(o)
	l.Opened("calls of webhooks", func() error { p.Webhooks.Close(); return nil })
	hooks := webhooks.New(webhooks.Options{
		Registry: reg, Client: p.Webhooks, Authorize: p.access.Permissions, Static: files.manifests, Credentials: files.credentials,
		Shared: p.storage.Shared(), Metrics: measured, Logger: p.o.Logger,
	})
	l.Opened("configurations of webhooks", func() error { hooks.Close(); return nil })
	expressions := policies.New(policies.Options{
		Registry: reg, Authorize: p.access.Permissions, Types: ownership.Types, Static: files.manifests, Shared: p.storage.Shared(), Metrics: measured, Logger: p.o.Logger,
	})
	l.Opened("policies", func() error { expressions.Close(); return nil })
	return []registry.Admission{expressions.Mutating(), hooks.Mutating(), expressions.Validating(), hooks.Validating()}, nil
}

// inFiles is what files say of the plugins, by their names.
type inFiles struct {
	manifests   map[string]concern.Static
	credentials map[string]*webhook.Credentials
}

// configure reads the files that the configuration of the plugins names.
func (p *Plugins) configure(set admission.Configuration, l *assembly.List) (inFiles, error) {
	out := inFiles{map[string]concern.Static{}, map[string]*webhook.Credentials{}}
	for _, name := range manifests.Plugins() {
		if slices.Contains(p.o.Disable, name) {
			continue
		}
		of, err := manifests.Configure(name, set[name])
		if err == nil && of.KubeConfigFile != "" {
			out.credentials[name], err = webhook.ReadCredentials(of.KubeConfigFile)
		}
		if err == nil && of.StaticManifestsDir != "" {
			out.manifests[name], err = p.openManifests(name, of.StaticManifestsDir, l)
		}
		if err != nil {
			return out, fmt.Errorf("configuration of plugin %q: %w", name, err)
		}
	}
	return out, nil
}

// openManifests reads a directory of manifests, and follows it.
func (p *Plugins) openManifests(plugin, directory string, l *assembly.List) (*manifests.Manifests, error) {
	m, err := manifests.Open(manifests.Options{
		Plugin: plugin, Directory: directory, Served: p.storage.Registry.Catalogue, ServerID: p.address.Identity(), Logger: p.o.Logger,
	})
	if err != nil {
		return nil, err
	}
	p.o.Metrics.MustRegister(m)
	l.Run("manifests of "+plugin, m.Run)
	return m, nil
}
