package custom

import (
	"bytes"
	"context"
	"errors"
	"time"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/server/custom/conversion"
	"github.com/millrace/millrace/internal/server/resource/tree"
	"github.com/millrace/millrace/internal/server/webhook"
)

// convertedBytes bounds what is kept of objects that webhooks have converted, for all definitions together.
const convertedBytes = 128 << 20

// conversions are what the conversions of all definitions share.
type conversions struct {
	webhooks *webhook.Client // nil calls none
	kept     *tree.Converted
}

// converterOf is how the objects of a definition get from one version to another, and where is kept what came of it:
// nowhere if that costs nothing.
func (c *conversions) converterOf(d *v1.CustomResourceDefinition) (tree.Converter, *tree.Converted) {
	if !hasWebhook(d) {
		return relabel{d.Spec.Group}, nil
	}
	target := targetOf(d.Spec.Conversion.Webhook.ClientConfig)
	return conversion.New(conversion.Options{
		Group: d.Spec.Group, Reviews: d.Spec.Conversion.Webhook.ConversionReviewVersions,
		Post: func(ctx context.Context, timeout time.Duration, body []byte) ([]byte, error) {
			if c.webhooks == nil {
				return nil, errNoWebhooks
			}
			t := target
			t.Timeout = timeout
			return c.webhooks.Post(ctx, t, body)
		},
	}), c.kept
}

var errNoWebhooks = errors.New("this server does not call webhooks")

func hasWebhook(d *v1.CustomResourceDefinition) bool {
	c := d.Spec.Conversion
	return c != nil && c.Strategy == v1.WebhookConverter && c.Webhook != nil && c.Webhook.ClientConfig != nil
}

// targetOf is whom a definition wants to be called.
func targetOf(c *v1.WebhookClientConfig) webhook.Target {
	t := webhook.Target{CABundle: c.CABundle}
	if len(bytes.TrimSpace(c.CABundle)) == 0 {
		t.CABundle = nil
	}
	if c.URL != nil {
		t.URL = *c.URL
	}
	if s := c.Service; s != nil {
		t.Service = &webhook.Service{Namespace: s.Namespace, Name: s.Name}
		if s.Path != nil {
			t.Service.Path = *s.Path
		}
		if s.Port != nil {
			t.Service.Port = *s.Port
		}
	}
	return t
}

// relabel converts by changing nothing but the version's name, as the strategy None says.
type relabel struct{ group string }

func (r relabel) Convert(_ context.Context, objects []*unstructured.Unstructured, toVersion string) ([]*unstructured.Unstructured, error) {
	for _, o := range objects {
		o.SetAPIVersion(r.group + "/" + toVersion)
	}
	return objects, nil
}
