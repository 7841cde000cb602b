package tree

import (
	"bytes"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/resource/decode"
)

// Object is an object of a custom kind. At first its metadata is a struct, and its other parts (top-level members, such
// as spec and status) are texts: most writes copy, compare and check most parts without decoding them. Tree turns the
// object into a tree, for callers that need one, and it stays a tree.
//
// Texts are canonical (jsontext.Canonical) and not ambiguous, so parts are equal if their texts are.
type Object struct {
	metav1.Object // holds the metadata: meta, or the tree

	meta             metav1.ObjectMeta
	apiVersion, kind string
	parts            []Part // sorted by name
	checked          any    // what Check was told
	u                *unstructured.Unstructured
}

// Part is a top-level member of an object, other than metadata, kind and version.
type Part struct {
	Name, Text string
	value      any // the decoded text, or nil
}

// Value returns the decoded part. It must not be modified.
func (p *Part) Value() any {
	if p.value == nil {
		p.value, _ = decode.Value(p.Text)
	}
	return p.value
}

// Decode returns the decoded part for a caller that modifies it.
func (p *Part) Decode() any {
	value, _ := decode.Value(p.Text)
	return value
}

// NewObject returns an object that is a tree.
func NewObject(u *unstructured.Unstructured) *Object { return &Object{Object: u, u: u} }

// ParseObject reads an object as texts. ok is false if it has to be a tree: because of nulls, fractions, errors, or
// unusual metadata. The text must not be modified afterwards.
func ParseObject(text string) (o *Object, ok bool) { return parseObject(text, false) }

// parseObject reads an object. known says that the text is known to be canonical.
func parseObject(text string, known bool) (o *Object, ok bool) {
	o = &Object{}
	o.Object = &o.meta
	return o, o.parse(text, known)
}

func (o *Object) parse(text string, known bool) bool {
	o.parts = make([]Part, 0, usualParts)
	sorted, last, described := true, "", false
	ended := jsontext.AllMembers(text, func(quoted, value string) bool {
		if len(quoted) < len(`"a"`) {
			return false
		}
		name := quoted[1 : len(quoted)-1]
		switch name {
		case "metadata":
			again := described
			described = true
			return !again && o.parseMetadata(value, known)
		case "apiVersion":
			return o.apiVersion == "" && plainText(value, &o.apiVersion)
		case "kind":
			return o.kind == "" && plainText(value, &o.kind)
		}
		if jsontext.Unescaped(name) < len(name) {
			return false
		}
		same, decoded, ok := value, any(nil), true
		if !known {
			if same, decoded, ok = canonical(value); !ok {
				return false
			}
		}
		sorted, last = sorted && name > last, name
		o.parts = append(o.parts, Part{name, same, decoded})
		return true
	})
	if !ended || o.kind == "" || o.apiVersion == "" || !described {
		return false
	}
	if !sorted {
		slices.SortFunc(o.parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
		for i := 1; i < len(o.parts); i++ {
			if o.parts[i].Name == o.parts[i-1].Name {
				return false
			}
		}
	}
	return true
}

// usualParts is how many parts an object mostly has: a spec and a status.
const usualParts = 2

// plainText reads a string that is not empty and has no escapes.
func plainText(value string, into *string) bool {
	c := jsontext.Canonical{Text: value}
	quoted, ok := c.Quoted()
	if !ok || c.At != len(value) || len(quoted) < len(`"a"`) || strings.IndexByte(quoted, '\\') >= 0 {
		return false
	}
	*into = quoted[1 : len(quoted)-1]
	return true
}

// Of returns the tree of an object of a custom kind, which is shared with it; nil if it is of no custom kind.
func Of(o any) *unstructured.Unstructured {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		return o
	case *Object:
		return o.Tree()
	}
	return nil
}

// Parts returns the object if its parts are texts.
func Parts(o any) (*Object, bool) {
	t, ok := o.(*Object)
	return t, ok && t.u == nil
}

// Tree turns the object into a tree, which is shared with it.
func (o *Object) Tree() *unstructured.Unstructured {
	if o.u == nil {
		o.u = &unstructured.Unstructured{}
		text := o.append(nil, o.meta.ResourceVersion)
		var ok bool
		if o.u.Object, ok = decode.Tree(text); !ok {
			o.u.Object = nil
			if err := o.u.UnmarshalJSON(text); err != nil {
				panic("a text that was written here cannot be read: " + err.Error())
			}
		}
		o.Object, o.parts, o.checked = o.u, nil, nil
	}
	return o.u
}

// Become makes the object the same as another one, which must not be used afterwards.
func (o *Object) Become(other *Object) {
	*o = *other
	if o.u == nil {
		o.Object = &o.meta
	}
}

// Simplify turns a tree that has nothing unusual back into texts. Nobody else may hold the tree.
func (o *Object) Simplify() {
	if o.u == nil {
		return
	}
	for name, value := range o.u.Object {
		if name != "metadata" && jsontext.Ambiguous(value) {
			return
		}
	}
	if text, err := Append(nil, o.u.Object); err == nil {
		if parsed, ok := ParseObject(string(text)); ok {
			o.Become(parsed)
		}
	}
}

// Describe sets the metadata to that of another object.
func (o *Object) Describe(like *Object) { like.meta.DeepCopyInto(&o.meta) }

// Metadata returns the metadata of an object whose parts are texts.
func (o *Object) Metadata() *metav1.ObjectMeta { return &o.meta }

// All returns the parts, sorted by name. They must not be modified.
func (o *Object) All() []Part { return o.parts }

// Part returns a part; nil if there is none.
func (o *Object) Part(name string) *Part {
	for i := range o.parts {
		if o.parts[i].Name == name {
			return &o.parts[i]
		}
	}
	return nil
}

// text returns the text of a part, or nothing.
func (o *Object) text(name string) string {
	if p := o.Part(name); p != nil {
		return p.Text
	}
	return ""
}

// keep sets a part to the value that it has in another object.
func (o *Object) keep(name string, from *Part) {
	at, found := slices.BinarySearchFunc(o.parts, name, func(p Part, name string) int { return strings.Compare(p.Name, name) })
	switch {
	case from == nil && !found:
		return
	case from == nil:
		o.parts = slices.Delete(o.parts, at, at+1)
	case !found:
		o.parts = slices.Insert(o.parts, at, *from)
	case o.parts[at].Text == from.Text:
		return
	default:
		o.parts[at] = *from
	}
	o.checked = nil
}

// Set gives a part another value, or removes it if that is nil. It reports false for names and values that are unusual.
// The value must not be modified afterwards.
func (o *Object) Set(name string, value any) bool {
	switch {
	case value == nil:
		o.keep(name, nil)
	case jsontext.Ambiguous(value) || name == "" || jsontext.Unescaped(name) < len(name):
		return false
	default:
		o.keep(name, &Part{name, encoded(value), value})
	}
	return true
}

// ChangeMetadata changes the metadata as a tree. It reports false if the result is unusual.
func (o *Object) ChangeMetadata(change func(metadata map[string]any)) bool {
	content, ok := decode.Tree(appendMetadata(nil, &o.meta, o.meta.ResourceVersion))
	if !ok {
		return false
	}
	change(content)
	text, err := Append(nil, content)
	o.meta = metav1.ObjectMeta{}
	return err == nil && o.parseMetadata(string(text), false)
}

// Copy returns a copy that may be modified. The managed fields, which are replaced and never modified, are shared.
func (o *Object) Copy() *Object {
	out := &Object{apiVersion: o.apiVersion, kind: o.kind, parts: slices.Clone(o.parts), checked: o.checked}
	out.Object = &out.meta
	unmanaged := o.meta
	unmanaged.ManagedFields = nil
	unmanaged.DeepCopyInto(&out.meta)
	out.meta.ManagedFields = o.meta.ManagedFields
	return out
}

// Alike reports whether two objects are equal as equality.Semantic finds them; objects of custom kinds cannot be given
// to that.
func Alike(a, b runtime.Object) bool {
	x, xOK := Parts(a)
	y, yOK := Parts(b)
	if xOK && yOK {
		return x.apiVersion == y.apiVersion && x.kind == y.kind && SameParts(x, y) && equality.Semantic.DeepEqual(&x.meta, &y.meta)
	}
	if s, t := Of(a), Of(b); s != nil && t != nil {
		return Equal(s.Object, t.Object)
	}
	return equality.Semantic.DeepEqual(a, b)
}

// SameParts reports whether two objects have the same values in all parts.
func SameParts(a, b *Object) bool {
	return slices.EqualFunc(a.parts, b.parts, func(x, y Part) bool { return x.Name == y.Name && x.Text == y.Text })
}

// Check calls check unless it was called for the same owner since the parts were changed last, and succeeded.
func (o *Object) Check(owner any, check func() bool) bool {
	if o.checked == owner {
		return true
	}
	if !check() {
		return false
	}
	o.checked = owner
	return true
}

// Checked reports whether a check has succeeded since the parts were changed last.
func (o *Object) Checked() bool { return o.checked != nil }

// size returns about how long the text of the object is.
func (o *Object) size() int {
	n := usualSize / 2
	for i := range o.parts {
		n += len(o.parts[i].Text) + len(o.parts[i].Name)
	}
	for _, values := range []map[string]string{o.meta.Labels, o.meta.Annotations} {
		for key, value := range values {
			n += len(key) + len(value)
		}
	}
	for i := range o.meta.ManagedFields {
		if e := &o.meta.ManagedFields[i]; e.FieldsV1 != nil {
			n += e.FieldsV1.Size() + usualSize/8
		}
	}
	return n
}

// append appends the object as Append writes its tree.
func (o *Object) append(b []byte, resourceVersion string) []byte {
	b = append(b, '{')
	head := [...]string{"apiVersion", "kind", "metadata"}
	next := 0
	until := func(name string) {
		for ; next < len(head) && (name == "" || head[next] < name); next++ {
			b = append(append(append(b, '"'), head[next]...), '"', ':')
			switch next {
			case 0:
				b = jsontext.Quote(b, o.apiVersion)
			case 1:
				b = jsontext.Quote(b, o.kind)
			case 2:
				b = appendMetadata(b, &o.meta, resourceVersion)
			}
			b = append(b, ',')
		}
	}
	for i := range o.parts {
		p := &o.parts[i]
		until(p.Name)
		b = append(append(append(b, '"'), p.Name...), '"', ':')
		b = append(append(b, p.Text...), ',')
	}
	until("")
	b[len(b)-1] = '}'
	return b
}

// GetObjectKind implements runtime.Object.
func (o *Object) GetObjectKind() schema.ObjectKind { return o }

// GroupVersionKind implements schema.ObjectKind.
func (o *Object) GroupVersionKind() schema.GroupVersionKind {
	if o.u != nil {
		return o.u.GroupVersionKind()
	}
	return schema.FromAPIVersionAndKind(o.apiVersion, o.kind)
}

// SetGroupVersionKind implements schema.ObjectKind.
func (o *Object) SetGroupVersionKind(gvk schema.GroupVersionKind) {
	if o.u != nil {
		o.u.SetGroupVersionKind(gvk)
		return
	}
	group, version, _ := strings.Cut(o.apiVersion, "/")
	if o.kind != gvk.Kind || group != gvk.Group || version != gvk.Version {
		o.apiVersion, o.kind = gvk.ToAPIVersionAndKind()
	}
}

// Said returns the version and kind that the object names.
func (o *Object) Said() (apiVersion, kind string) { return o.apiVersion, o.kind }

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	if o.u != nil {
		return NewObject(o.u.DeepCopy())
	}
	out := o.Copy()
	o.meta.DeepCopyInto(&out.meta)
	return out
}

// MarshalJSON implements json.Marshaler.
func (o *Object) MarshalJSON() ([]byte, error) {
	if o.u != nil {
		text, err := o.u.MarshalJSON()
		return bytes.TrimSuffix(text, []byte("\n")), err
	}
	return o.append(nil, o.meta.ResourceVersion), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Object) UnmarshalJSON(text []byte) error {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		return err
	}
	*o = *NewObject(u)
	return nil
}

// NewEmptyInstance implements runtime.Unstructured.
func (o *Object) NewEmptyInstance() runtime.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(o.GroupVersionKind())
	return u
}

// UnstructuredContent implements runtime.Unstructured.
func (o *Object) UnstructuredContent() map[string]any { return o.Tree().UnstructuredContent() }

// SetUnstructuredContent implements runtime.Unstructured.
func (o *Object) SetUnstructuredContent(content map[string]any) {
	o.Tree().SetUnstructuredContent(content)
}

// IsList implements runtime.Unstructured.
func (o *Object) IsList() bool { return false }

// EachListItem implements runtime.Unstructured.
func (o *Object) EachListItem(f func(runtime.Object) error) error { return o.Tree().EachListItem(f) }

// EachListItemWithAlloc implements runtime.Unstructured.
func (o *Object) EachListItemWithAlloc(f func(runtime.Object) error) error {
	return o.Tree().EachListItemWithAlloc(f)
}
