package millrace

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/server/admission"
	"github.com/millrace/millrace/server/admission/concern"
	"github.com/millrace/millrace/server/admission/manifests"
	"github.com/millrace/millrace/server/admission/policies"
	"github.com/millrace/millrace/server/admission/webhooks"
	"github.com/millrace/millrace/server/metrics"
	"github.com/millrace/millrace/server/ownership"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/webhook"
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
func (c *Cluster) extend(current func() *registry.Registry, served *resource.Catalogue, set admission.Configuration) ([]registry.Admission, error) {
	e := &c.extensions
	static, err := c.readManifests(served, set)
	if err != nil {
		return nil, err
	}
	e.metrics = metrics.NewAdmission()
	e.client = webhook.New(webhook.Options{Registry: current})
	c.opened("calls of webhooks", func() error { e.client.Close(); return nil })
	shared := len(c.options.Etcd.Servers) > 0
	e.webhooks = webhooks.New(webhooks.Options{
		Registry: current, Client: e.client, Authorize: c.permissions, Static: static, Shared: shared, Metrics: e.metrics, Logger: c.options.Logger,
	})
	c.opened("configurations of webhooks", func() error { e.webhooks.Close(); return nil })
	e.policies = policies.New(policies.Options{
		Registry: current, Authorize: c.permissions, Types: ownership.Types, Static: static, Shared: shared, Metrics: e.metrics, Logger: c.options.Logger,
	})
	c.opened("policies", func() error { e.policies.Close(); return nil })
	return []registry.Admission{e.policies.Mutating(), e.webhooks.Mutating(), e.policies.Validating(), e.webhooks.Validating()}, nil
}

// readManifests reads the directories that the configuration of the plugins names, and follows them. It returns what they have by plugin.
func (c *Cluster) readManifests(served *resource.Catalogue, set admission.Configuration) (map[string]concern.Static, error) {
	out := map[string]concern.Static{}
	for _, name := range manifests.Plugins() {
		if slices.Contains(c.options.Admission.Disable, name) {
			continue
		}
		configured, err := manifests.Configure(name, set[name])
		if err != nil {
			return nil, fmt.Errorf("configuration of plugin %q: %w", name, err)
		}
		if configured.StaticManifestsDir == "" {
			continue
		}
		m, err := manifests.Open(manifests.Options{
			Plugin: name, Directory: configured.StaticManifestsDir, Served: served, ServerID: c.identity(), Logger: c.options.Logger,
		})
		if err != nil {
			return nil, fmt.Errorf("manifests of plugin %q: %w", name, err)
		}
		c.run("manifests of "+name, m.Run)
		c.extensions.manifests = append(c.extensions.manifests, m)
		out[name] = m
	}
	return out, nil
}
