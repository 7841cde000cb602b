package apiserver

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/resource"
)

// Live makes the list of all objects of a kind that is not stored, each time that somebody reads them.
type Live func(context.Context) runtime.Object

// readLive answers with objects that are not stored.
func (c *call) readLive(make Live) error {
	if c.verb == "list" {
		return c.listLive(make)
	}
	all, err := meta.ExtractList(make(c.Within))
	if err != nil {
		return err
	}
	for _, o := range all {
		if o := o.(resource.Object); o.GetName() == c.t.Name {
			return c.SendObject(http.StatusOK, o)
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: c.Kind.Group, Resource: c.Kind.Singular}, c.t.Name)
}

func (c *call) listLive(make Live) error {
	o, err := query.ParseList(c.Request.URL.Query(), c.Face)
	if err != nil {
		return err
	}
	list := make(c.Within)
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	selected := []runtime.Object{}
	for _, one := range all {
		m := one.(resource.Object)
		if (o.Labels == nil || o.Labels.Matches(labels.Set(m.GetLabels()))) && (o.Fields == nil || o.Fields.Matches(fields.Set{"metadata.name": m.GetName(), "metadata.namespace": m.GetNamespace()})) {
			selected = append(selected, one)
		}
	}
	if err := meta.SetList(list, selected); err != nil {
		return err
	}
	return c.SendObjects(list, selected)
}
