// Package tree holds objects as JSON trees: maps, lists and scalars. Custom resources are held so. They are stored as
// JSON.
//
// Guarantees: labels and selectable fields are read directly from the stored text, and equal those of the decoded tree.
// An object that was stored in another version is converted when it is read. Objects that need conversion at the same
// time are converted together, and the result is cached for all readers (Converted). Objects are stored in the kind's
// storage version.
package tree

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/decode"
)

// Converter converts objects, all of the same version, to another version of their kind. It may modify them. Results
// that failed are nil, and the error is that of one of them.
type Converter interface {
	Convert(ctx context.Context, objects []*unstructured.Unstructured, toVersion string) ([]*unstructured.Unstructured, error)
}

// Options describes a representation.
type Options struct {
	Identity *resource.Identity
	// Fields are those of the kind.
	Fields []resource.Field
	// Version is the version of the objects in memory, Storage that of stored objects.
	Version, Storage, Kind string
	Convert                Converter
	// Refine completes a decoded object: it removes unknown fields, and sets defaults. Nil leaves objects as they are
	// stored.
	Refine func(version string, object map[string]any) error
	// Prune removes unknown fields from an object that was converted to a version. Defaults are those of the stored
	// version alone. Nil removes nothing.
	Prune func(version string, object map[string]any) error
	// Whole reports whether Refine would change nothing in an object, given as text, and then whether the text is
	// plain: written as Append writes it, without odd values. Nil means never.
	Whole func(version string, text []byte) (whole, plain bool)
	// Converted caches conversions, under an edition that stands for everything on which they depend. Nil converts each
	// time, which is right for converters that call no webhook.
	Converted *Converted
	Edition   uint32
}

// New returns a representation of objects as *unstructured.Unstructured.
func New(o Options) resource.Representation {
	head := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,`, o.Identity.Group+"/"+o.Version, o.Kind)
	return &trees{Options: o, paths: pathsOf(o.Fields), head: head}
}

type trees struct {
	Options
	paths [][]string
	head  []byte // the beginning of an object that was stored in our version
}

func (t *trees) apiVersion(version string) string { return t.Identity.Group + "/" + version }

func (t *trees) New() resource.Object {
	return NewObject(&unstructured.Unstructured{Object: map[string]any{"apiVersion": t.apiVersion(t.Version), "kind": t.Kind}})
}

func (t *trees) Attributes(stored []byte) (resource.Attributes, error) {
	a := attributesOf(stored, t.paths)
	if t.Foreign() {
		a.Fields = append(a.Fields, versionOf(stored)) // for StoredInVersion
	}
	return a, nil
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
	others := map[string][]int{} // by their stored version
	for i, s := range stored {
		if t.Converted != nil {
			if version := versionOf(s.Bytes); version != t.Version {
				others[version] = append(others[version], i)
				continue
			}
		}
		if o, ok := t.asTexts(s.Bytes); ok {
			out[i] = o
			continue
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

// asTexts reads stored bytes of our version without decoding them. ok is false if they have to be decoded or refined.
func (t *trees) asTexts(stored []byte) (o *Object, ok bool) {
	if !bytes.HasPrefix(stored, t.head) {
		return nil, false
	}
	known := false
	if t.Refine != nil {
		if t.Whole == nil {
			return nil, false
		}
		var whole bool
		if whole, known = t.Whole(t.Version, stored); !whole {
			return nil, false
		}
	}
	return parseObject(string(bytes.TrimSuffix(stored, newline)), known)
}

var newline = []byte("\n")

// read decodes stored bytes in their own version.
func (t *trees) read(stored []byte) (u *unstructured.Unstructured, version string, err error) {
	if u, err = Read(stored); err != nil {
		return nil, "", fmt.Errorf("decode stored %s: %w", t.Kind, err)
	}
	version = u.GroupVersionKind().Version
	if err := t.refine(version, u); err != nil {
		return nil, "", fmt.Errorf("decode stored %s: %w", t.Kind, err)
	}
	return u, version, nil
}

// Read decodes an object.
func Read(text []byte) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	var ok bool
	if u.Object, ok = decode.Tree(text); ok && u.GetKind() != "" {
		return u, nil
	}
	u.Object = nil
	return u, u.UnmarshalJSON(text)
}

// convertAt converts the objects at some places, which all have the same version.
func (t *trees) convertAt(ctx context.Context, stored []resource.Stored, all []resource.Object, places []int) error {
	if t.Converted != nil {
		return t.convertOnce(ctx, stored, all, places)
	}
	in := make([]*unstructured.Unstructured, len(places))
	for i, at := range places {
		in[i] = Of(all[at])
	}
	done, err := t.Convert.Convert(ctx, in, t.Version)
	if err != nil {
		return err
	}
	for i, at := range places {
		if err := t.pruned(done[i], t.Version); err != nil {
			return err
		}
		all[at] = done[i]
	}
	return nil
}

// pruned removes from an object that was converted to a version what this does not know.
func (t *trees) pruned(u *unstructured.Unstructured, version string) error {
	if t.Prune == nil {
		return nil
	}
	if err := t.Prune(version, u.Object); err != nil {
		return fmt.Errorf("read what was converted to %s: %w", t.apiVersion(version), err)
	}
	return nil
}

func (t *trees) refine(version string, u *unstructured.Unstructured) error {
	if t.Refine == nil {
		return nil
	}
	return t.Refine(version, u.Object)
}

// usualSize is the size of most objects as text.
const usualSize = 1 << 10

func (t *trees) Encode(ctx context.Context, o resource.Object) ([]byte, error) {
	if parts, ok := Parts(o); ok && t.Storage == t.Version {
		return append(parts.append(make([]byte, 0, parts.size()), ""), '\n'), nil
	}
	u := Of(o)
	if t.Rewrites() {
		in := u.DeepCopy()
		in.SetResourceVersion("")
		converted, err := t.Convert.Convert(ctx, []*unstructured.Unstructured{in}, t.Storage)
		if err != nil {
			return nil, err
		}
		u = converted[0]
		if err := t.pruned(u, t.Storage); err != nil {
			return nil, err
		}
	}
	version := u.GetResourceVersion()
	u.SetResourceVersion("")
	defer u.SetResourceVersion(version)
	b, err := Append(make([]byte, 0, usualSize), u.Object)
	return append(b, '\n'), err
}

// Rewrites reports whether objects are stored in another version.
func (t *trees) Rewrites() bool { return t.Storage != t.Version }

// bothParts returns two objects if the parts of both are texts.
func bothParts(a, b resource.Object) (x, y *Object, ok bool) {
	x, isX := Parts(a)
	y, isY := Parts(b)
	return x, y, isX && isY
}

func (t *trees) Keep(o, old resource.Object, part string) {
	if now, ok := Parts(o); ok && old == nil {
		now.keep(part, nil)
		return
	}
	if now, before, ok := bothParts(o, old); ok {
		now.keep(part, before.Part(part))
		return
	}
	to := Of(o).Object
	if old != nil {
		if value, ok := Of(old).Object[part]; ok {
			to[part] = value
			return
		}
	}
	delete(to, part)
}

func (t *trees) KeepAllBut(o, old resource.Object, part string) {
	if now, before, ok := bothParts(o, old); ok {
		mine := now.Part(part)
		now.parts, now.checked = slices.Clone(before.parts), nil
		now.keep(part, mine)
		return
	}
	to, from := Of(o).Object, Of(old).Object
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
	if x, y, ok := bothParts(a, b); ok {
		return x.text(part) == y.text(part)
	}
	return Equal(Of(a).Object[part], Of(b).Object[part])
}
