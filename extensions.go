package millrace

import (
	"github.com/millrace/millrace/server/admission/policies"
	"github.com/millrace/millrace/server/admission/webhooks"
	"github.com/millrace/millrace/server/metrics"
	"github.com/millrace/millrace/server/ownership"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/webhook"
)

// extensions has the admission plugins that objects of the cluster configure.
type extensions struct {
	client   *webhook.Client
	webhooks *webhooks.Webhooks
	policies *policies.Policies
	metrics  *metrics.Admission
}

// extend makes the client for webhooks, and the plugins that use it, in their order.
func (c *Cluster) extend(current func() *registry.Registry) []registry.Admission {
	e := &c.extensions
	e.metrics = metrics.NewAdmission()
	e.client = webhook.New(webhook.Options{Registry: current})
	c.opened("calls of webhooks", func() error { e.client.Close(); return nil })
	shared := len(c.options.Etcd.Servers) > 0
	e.webhooks = webhooks.New(webhooks.Options{
		Registry: current, Client: e.client, Authorize: c.permissions, Shared: shared, Metrics: e.metrics, Logger: c.options.Logger,
	})
	c.opened("configurations of webhooks", func() error { e.webhooks.Close(); return nil })
	e.policies = policies.New(policies.Options{
		Registry: current, Authorize: c.permissions, Types: ownership.Types, Shared: shared, Metrics: e.metrics, Logger: c.options.Logger,
	})
	c.opened("policies", func() error { e.policies.Close(); return nil })
	return []registry.Admission{e.policies.Mutating(), e.webhooks.Mutating(), e.policies.Validating(), e.webhooks.Validating()}
}
