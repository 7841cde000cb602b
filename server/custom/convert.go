package custom

import (
	"context"
	"fmt"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/server/resource/tree"
)

// converterOf is how the objects of a definition get from one version to another.
func converterOf(d *v1.CustomResourceDefinition) tree.Converter {
	if d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == v1.WebhookConverter {
		return refusal{d.Name}
	}
	return relabel{d.Spec.Group}
}

// relabel converts by changing nothing but the version's name, as the strategy None says.
type relabel struct{ group string }

func (r relabel) Convert(_ context.Context, objects []*unstructured.Unstructured, toVersion string) ([]*unstructured.Unstructured, error) {
	for _, o := range objects {
		o.SetAPIVersion(r.group + "/" + toVersion)
	}
	return objects, nil
}

// refusal converts nothing: webhooks are not called, and an object that is not converted must not be taken for one that is.
// Requests for the version in which objects are stored go on.
type refusal struct{ definition string }

func (r refusal) Convert(context.Context, []*unstructured.Unstructured, string) ([]*unstructured.Unstructured, error) {
	return nil, apierrors.NewInternalError(fmt.Errorf("conversion webhook for %s failed: this server does not call conversion webhooks", r.definition))
}
