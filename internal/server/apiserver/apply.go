package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/apiserver/internal/negotiate"
	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/decode"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// applyUpdater returns an updater that applies a configuration (server-side apply).
func (c *call) applyUpdater(text []byte, o query.Write, view string) (registry.Updater, error) {
	configuration, misfit, err := c.configuration(text, o)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, old resource.Object) (resource.Object, error) {
		if err := c.checkUID(configuration, old); err != nil {
			return nil, err
		}
		merged, err := c.s.o.Apply.Apply(c.Face, view, old, configuration.DeepCopy(), o.Manager, o.Force)
		if err != nil {
			return nil, applyError(err)
		}
		if misfit != nil {
			return nil, misfit
		}
		if u, isTree := merged.(*unstructured.Unstructured); isTree {
			merged = tree.NewObject(u) // which becomes texts, if that is possible
		}
		merged.GetObjectKind().SetGroupVersionKind(c.Kind.GroupVersionKind())
		if !c.appliesNothing(merged, old) {
			c.Kind.Default(merged)
		}
		if c.Kind.Clean != nil { // nulls that mean nothing
			if _, err := c.Kind.Clean(merged); err != nil {
				return nil, err
			}
		}
		if old == nil {
			merged.SetResourceVersion("")
		}
		return merged, nil
	}, nil
}

// appliesNothing tells that nothing but owners of fields has changed, of an object that was read in another version
// than its own. It is left as it was read: without defaults of the version of the request.
func (c *call) appliesNothing(merged, old resource.Object) bool {
	if r, ok := c.Kind.Representation.(resource.Rewriting); !ok || !r.Rewrites() || !c.Kind.Custom || old == nil {
		return false
	}
	before, after := tree.Of(old).DeepCopy(), tree.Of(merged).DeepCopy()
	before.SetManagedFields(nil)
	after.SetManagedFields(nil)
	return equality.Semantic.DeepEqual(before, after)
}

// configuration decodes what is to be applied. misfit says why it does not fit the kind; it is reported only if merging
// finds no error.
func (c *call) configuration(text []byte, o query.Write) (u *unstructured.Unstructured, misfit, err error) {
	into := c.Face.New()
	content := map[string]any{}
	if plainJSON(text) && c.Kind.Clean == nil && body.Harmless(text) && decode.JSON(text, into) && json.Unmarshal(text, &content) == nil {
		configuration := &unstructured.Unstructured{Object: content}
		return configuration, nil, c.checkConfiguration(configuration)
	}
	if plainJSON(text) && c.Kind.Clean != nil {
		// The merge takes a tree, decoded from the text.
		if object, ok := decode.Tree(text); ok {
			configuration := &unstructured.Unstructured{Object: object}
			return configuration, nil, c.checkConfiguration(configuration)
		}
		if strict, err := strictjson.UnmarshalStrict(text, &content); err == nil && len(strict) == 0 {
			configuration := &unstructured.Unstructured{Object: content}
			return configuration, nil, c.checkConfiguration(configuration)
		}
		clear(content)
	}
	if err := yaml.Unmarshal(text, &content); err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	configuration := &unstructured.Unstructured{Object: content}
	if err := c.checkConfiguration(configuration); err != nil {
		return nil, nil, err
	}
	// Decoding into the Go type finds unknown fields.
	into = c.Face.New()
	strict, err := body.Body{Bytes: text, Media: negotiate.YAML}.DecodeInto(into, c.Face.GroupVersionKind)
	switch {
	case errors.As(err, new(body.ExponentError)):
		return nil, nil, err
	case err != nil:
		return configuration, err, nil
	}
	return configuration, body.Report(strict, o.Validation, c.Face.GroupVersionKind, c.warn), nil
}

// plainJSON reports whether a text, if it is JSON, means the same as YAML. Then it need not be parsed as YAML, which
// takes ten times as long. All clients of Kubernetes send JSON.
func plainJSON(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	for i, c := range text {
		switch {
		case c == '/' && text[i-1] == '\\', c < ' ' && c != '\n', c > '~':
			return false
		}
	}
	return true
}

// applyError returns conflicts unchanged, because they are statuses already; any other error is a bad request.
func applyError(err error) error {
	if _, known := err.(apierrors.APIStatus); known {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
}

func (c *call) checkConfiguration(u *unstructured.Unstructured) error {
	gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
	if found := gv.WithKind(u.GetKind()); err != nil || found != c.Face.GroupVersionKind {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", found))
	}
	if c.Kind.Namespaced && u.GetNamespace() != "" && u.GetNamespace() != c.t.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if u.GetName() != "" && u.GetName() != c.t.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", u.GetName(), c.t.Name))
	}
	if len(u.GetManagedFields()) > 0 {
		return apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	return nil
}

func (c *call) checkUID(u *unstructured.Unstructured, old resource.Object) error {
	if u.GetUID() == "" || old != nil {
		return nil
	}
	return apierrors.NewConflict(c.Kind.GroupResource(), c.t.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", u.GetUID()))
}
