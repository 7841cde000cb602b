package millrace

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/server/admission"
	"github.com/millrace/millrace/internal/server/admission/concern"
	"github.com/millrace/millrace/internal/server/admission/manifests"
	"github.com/millrace/millrace/internal/server/admission/policies"
	"github.com/millrace/millrace/internal/server/admission/webhooks"
	"github.com/millrace/millrace/internal/server/metrics"
	"github.com/millrace/millrace/internal/server/ownership"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/webhook"
)

// extensions has the admission plugins that objects of the cluster configure.
type extensions struct {
	client   *webhook.Client
	webhooks *webhooks.Webhooks
	policies *policies.Policies
	metrics  *metrics.Admission
	// manifests are the configurations that are read from files.
	manifests []*manifests.Manifests
}

// extend makes the client for webhooks, and the plugins that use it, in their order.
func (c *Cluster) extend(reg *registry.Registry, set admission.Configuration) ([]registry.Admission, error) {
	e := &c.extensions
	files, err := c.configure(reg.Catalogue, set)
	if err != nil {
		return nil, err
	}
	e.metrics = metrics.NewAdmission()
	e.client = webhook.New(webhook.Options{Registry: reg})
	c.opened("calls of webhooks", func() error { e.client.Close(); return nil })
	shared := len(c.options.Etcd.Servers) > 0
	e.webhooks = webhooks.New(webhooks.Options{
		Registry: reg, Client: e.client, Authorize: c.permissions, Static: files.manifests, Credentials: files.credentials,
		Shared: shared, Metrics: e.metrics, Logger: c.options.Logger,
	})
	c.opened("configurations of webhooks", func() error { e.webhooks.Close(); return nil })
	e.policies = policies.New(policies.Options{
		Registry: reg, Authorize: c.permissions, Types: ownership.Types, Static: files.manifests, Shared: shared, Metrics: e.metrics, Logger: c.options.Logger,
	})
	c.opened("policies", func() error { e.policies.Close(); return nil })
	return []registry.Admission{e.policies.Mutating(), e.webhooks.Mutating(), e.policies.Validating(), e.webhooks.Validating()}, nil
}

// configured is what files say of the plugins, by their names.
type configured struct {
	manifests   map[string]concern.Static
	credentials map[string]*webhook.Credentials
}

// configure reads the files that the configuration of the plugins names.
func (c *Cluster) configure(served *resource.Catalogue, set admission.Configuration) (configured, error) {
	out := configured{map[string]concern.Static{}, map[string]*webhook.Credentials{}}
	for _, name := range manifests.Plugins() {
		if slices.Contains(c.options.Admission.Disable, name) {
			continue
		}
		of, err := manifests.Configure(name, set[name])
		if err == nil && of.KubeConfigFile != "" {
			out.credentials[name], err = webhook.ReadCredentials(of.KubeConfigFile)
		}
		if err == nil && of.StaticManifestsDir != "" {
			out.manifests[name], err = c.openManifests(name, of.StaticManifestsDir, served)
		}
		if err != nil {
			return out, fmt.Errorf("configuration of plugin %q: %w", name, err)
		}
	}
	return out, nil
}

// openManifests reads a directory of manifests, and follows it.
func (c *Cluster) openManifests(plugin, directory string, served *resource.Catalogue) (*manifests.Manifests, error) {
	m, err := manifests.Open(manifests.Options{Plugin: plugin, Directory: directory, Served: served, ServerID: c.identity(), Logger: c.options.Logger})
	if err != nil {
		return nil, err
	}
	c.run("manifests of "+plugin, m.Run)
	c.extensions.manifests = append(c.extensions.manifests, m)
	return m, nil
}
