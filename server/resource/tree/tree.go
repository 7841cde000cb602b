// Package tree holds objects as JSON trees: maps, lists and scalars, as custom resources are. They are stored as JSON.
//
// What is guaranteed: labels and selectable fields are read straight from the stored text, without making a tree, and are the
// same that the tree has. An object that another version of the kind has stored is converted when it is read; what has to be
// converted at one time is converted in one go, and once for all who read it (Converted). What is stored is what the kind's storage version
// says.
package tree

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/server/resource"
)

// Converter turns objects into another version of their kind. It may change them. All have one version, and it is another. Those that
// could not be converted are nil, and the error is that of one of them.
type Converter interface {
	Convert(ctx context.Context, objects []*unstructured.Unstructured, toVersion string) ([]*unstructured.Unstructured, error)
}

// Options say what a representation is of.
type Options struct {
	Identity *resource.Identity
	// Version is the one that objects are held in, Storage the one that they are stored in.
	Version, Storage, Kind string
	Convert                Converter
	// Refine completes an object that was read: it drops what the schema does not know, and fills in defaults. Nil leaves
	// objects as they are stored.
	Refine func(version string, object map[string]any) error
	// Whole tells that Refine would change nothing in an object that is given as text. Nil is what never tells so.
	Whole func(version string, text []byte) bool
	// Converted keeps what was converted, under an edition that stands for all that this bears upon. Nil converts each time anew:
	// that is for converters that ask nobody.
	Converted *Converted
	Edition   uint32
}

// New makes a representation of objects as *unstructured.Unstructured.
func New(o Options) resource.Representation {
	head := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, o.Identity.Group+"/"+o.Version, o.Kind)
	return &trees{Options: o, paths: pathsOf(o.Identity.Fields), head: head}
}

type trees struct {
	Options
	paths [][]string
	head  []byte // begins an object that was stored in our version
}

func (t *trees) apiVersion(version string) string { return t.Identity.Group + "/" + version }

func (t *trees) New() resource.Object {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": t.apiVersion(t.Version), "kind": t.Kind}}
}

func (t *trees) Attributes(stored []byte) (resource.Attributes, error) {
	return attributesOf(stored, t.paths), nil
}

func (t *trees) Decode(ctx context.Context, stored []byte, resourceVersion string) (resource.Object, error) {
	all, err := t.DecodeAll(ctx, []resource.Stored{{Bytes: stored, ResourceVersion: resourceVersion}})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (t *trees) DecodeAll(ctx context.Context, stored []resource.Stored) ([]resource.Object, error) {
	out := make([]resource.Object, len(stored))
	others := map[string][]int{} // by the version that they were stored in
	for i, s := range stored {
		if t.Converted != nil {
			if version := versionOf(s.Bytes); version != t.Version {
				others[version] = append(others[version], i)
				continue
			}
		}
		u, version, err := t.read(s.Bytes)
		if err != nil {
			return nil, err
		}
		if version != t.Version {
			others[version] = append(others[version], i)
		}
		out[i] = u
	}
	for _, places := range others {
		if err := t.convertAt(ctx, stored, out, places); err != nil {
			return nil, err
		}
	}
	for i, s := range stored {
		out[i].SetResourceVersion(s.ResourceVersion)
	}
	return out, nil
}

// read makes an object of stored bytes, in the version that they have.
func (t *trees) read(stored []byte) (u *unstructured.Unstructured, version string, err error) {
	u = &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(stored); err != nil {
		return nil, "", fmt.Errorf("decode stored %s: %w", t.Kind, err)
	}
	version = u.GroupVersionKind().Version
	if err := t.refine(version, u); err != nil {
		return nil, "", fmt.Errorf("decode stored %s: %w", t.Kind, err)
	}
	return u, version, nil
}

// convertAt converts the objects at some places, which are of one version.
func (t *trees) convertAt(ctx context.Context, stored []resource.Stored, all []resource.Object, places []int) error {
	if t.Converted != nil {
		return t.convertOnce(ctx, stored, all, places)
	}
	in := make([]*unstructured.Unstructured, len(places))
	for i, at := range places {
		in[i] = all[at].(*unstructured.Unstructured)
	}
	done, err := t.Convert.Convert(ctx, in, t.Version)
	if err != nil {
		return err
	}
	for i, at := range places {
		if err := t.refined(done[i]); err != nil {
			return err
		}
		all[at] = done[i]
	}
	return nil
}

// refined completes what was converted.
func (t *trees) refined(u *unstructured.Unstructured) error {
	if err := t.refine(t.Version, u); err != nil {
		return fmt.Errorf("read what was converted to %s: %w", t.apiVersion(t.Version), err)
	}
	return nil
}

func (t *trees) refine(version string, u *unstructured.Unstructured) error {
	if t.Refine == nil {
		return nil
	}
	return t.Refine(version, u.Object)
}

func (t *trees) Encode(ctx context.Context, o resource.Object) ([]byte, error) {
	u := o.(*unstructured.Unstructured)
	if t.Storage != t.Version {
		in := u.DeepCopy()
		in.SetResourceVersion("")
		converted, err := t.Convert.Convert(ctx, []*unstructured.Unstructured{in}, t.Storage)
		if err != nil {
			return nil, err
		}
		u = converted[0]
	}
	version := u.GetResourceVersion()
	u.SetResourceVersion("")
	defer u.SetResourceVersion(version)
	b, err := json.Marshal(u.Object)
	return append(b, '\n'), err
}

func (t *trees) Keep(o, old resource.Object, part string) {
	to := o.(*unstructured.Unstructured).Object
	if old != nil {
		if value, ok := old.(*unstructured.Unstructured).Object[part]; ok {
			to[part] = value
			return
		}
	}
	delete(to, part)
}

func (t *trees) KeepAllBut(o, old resource.Object, part string) {
	to, from := o.(*unstructured.Unstructured).Object, old.(*unstructured.Unstructured).Object
	for name := range to {
		if _, ok := from[name]; !ok && name != part {
			delete(to, name)
		}
	}
	for name, value := range from {
		if name != part && name != "metadata" {
			to[name] = value
		}
	}
}

func (t *trees) Same(a, b resource.Object, part string) bool {
	return equality.Semantic.DeepEqual(a.(*unstructured.Unstructured).Object[part], b.(*unstructured.Unstructured).Object[part])
}
