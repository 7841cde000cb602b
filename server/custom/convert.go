package custom

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// relabel converts by changing nothing but the version's name, as the strategy None says.
type relabel struct{ group string }

func (r relabel) Convert(_ context.Context, objects []*unstructured.Unstructured, toVersion string) ([]*unstructured.Unstructured, error) {
	for _, o := range objects {
		o.SetAPIVersion(r.group + "/" + toVersion)
	}
	return objects, nil
}
