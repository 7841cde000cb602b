package custom

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	apihelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeversion "k8s.io/apimachinery/pkg/version"

	structure "github.com/millrace/millrace/internal/server/custom/schema"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// definition is what a stored definition makes of the API, and what is needed to tell whether another makes the same.
type definition struct {
	name     string
	identity *resource.Identity
	foreign  bool // a webhook converts the objects
	// fields are the selectable ones of all versions, and those that were before under the same identity.
	fields   []resource.Field
	versions map[string]*version
	// kinds are those of the storage version, which is the first, and of the versions that are served. One that is not
	// served has no face.
	kinds []*resource.Kind
	// read decodes the definition.
	read func() (*v1.CustomResourceDefinition, error)
}

// version is a version of a definition, served or not.
type version struct {
	schema *structure.Schema
	// look identifies all that may bear upon how objects are shown, and more: versions with the same look have the same
	// meaning.
	look    string
	edition uint32
	life    *resource.Life
	// selectable are the lives of the fields that can be selected on.
	selectable map[string]*resource.Life
}

// groupResource is where objects are served.
func groupResource(d *v1.CustomResourceDefinition) schema.GroupResource {
	return schema.GroupResource{Group: d.Spec.Group, Resource: d.Status.AcceptedNames.Plural}
}

// isServed tells whether objects of a definition can be asked for. Somebody who may write the status can put any names
// there; under the plural of its own name a definition takes no other's place.
func isServed(d *v1.CustomResourceDefinition) bool {
	names := d.Status.AcceptedNames
	return apihelpers.IsCRDConditionTrue(d, v1.Established) && names.Plural == d.Spec.Names.Plural && names.Kind != "" && names.ListKind != ""
}

// define makes the kinds of a definition, which is given without its schemas. What has not changed since before, which
// may be nil, is carried on.
func (c *conversions) define(d *v1.CustomResourceDefinition, schemas []digest, read func() (*v1.CustomResourceDefinition, error), before *definition) (*definition, error) {
	out := &definition{name: d.Name, foreign: hasWebhook(d), versions: map[string]*version{}, read: read}
	out.identify(d, before)
	storage := ""
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		look, err := lookOf(d, v, schemas)
		if err != nil {
			return nil, err
		}
		out.versions[v.Name] = out.carry(v, look, before)
		if v.Storage {
			storage = v.Name
		}
	}
	topology := out.topology(d.Status.AcceptedNames.Kind)
	convert, kept := c.converterOf(d)
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if !v.Served && !v.Storage {
			continue
		}
		k := out.kind(d, v, topology)
		k.Representation = tree.New(tree.Options{
			Identity: out.identity, Fields: out.fields, Version: v.Name, Storage: storage, Kind: k.Kind, Edition: k.Edition,
			Convert: convert, Converted: kept, Refine: out.refine, Prune: out.prune, Whole: out.whole,
		})
		if v.Name == storage {
			out.kinds = append([]*resource.Kind{k}, out.kinds...)
		} else {
			out.kinds = append(out.kinds, k)
		}
	}
	return out, nil
}

// mostFields bounds the selectable fields of an identity. Fields that are selectable no more count.
const mostFields = 64

// identify keeps the identity as long as objects and topics stay the same, and the fields before are the first of those
// now.
func (d *definition) identify(def *v1.CustomResourceDefinition, before *definition) {
	d.identity = &resource.Identity{
		Group: def.Spec.Group, Resource: def.Status.AcceptedNames.Plural, Namespaced: def.Spec.Scope == v1.NamespaceScoped,
		Prefix: def.Spec.Group + "/" + def.Status.AcceptedNames.Plural, Stored: resource.StoredJSON, Custom: true,
	}
	if before != nil && before.foreign == d.foreign && sameIdentity(before.identity, d.identity) {
		if d.fields = fieldsOf(def, before.fields); len(d.fields) <= mostFields {
			d.identity = before.identity
			return
		}
	}
	d.fields = fieldsOf(def, nil)
}

func sameIdentity(a, b *resource.Identity) bool {
	return a.Group == b.Group && a.Resource == b.Resource && a.Namespaced == b.Namespaced
}

// fieldsOf adds the selectable fields of all versions to those that are known.
func fieldsOf(d *v1.CustomResourceDefinition, known []resource.Field) []resource.Field {
	out := slices.Clone(known)
	for _, v := range d.Spec.Versions {
		for _, f := range v.SelectableFields {
			if one := (resource.Field{Label: labelOf(f)}); !slices.Contains(out, one) {
				out = append(out, one)
			}
		}
	}
	return out
}

func labelOf(f v1.SelectableField) string { return strings.TrimPrefix(f.JSONPath, ".") }

// carry goes on with a version as it was if it means the same, or begins a new one.
func (d *definition) carry(v *v1.CustomResourceDefinitionVersion, look string, before *definition) *version {
	now := &version{schema: schemaOf(v.Name, d.read), look: look, selectable: map[string]*resource.Life{}}
	old := &version{}
	if before != nil && before.identity == d.identity && before.versions[v.Name] != nil {
		old = before.versions[v.Name]
	}
	same := old.look == look && look != "" || old.life != nil && sameMeaning(before.read, d.read, v.Name)
	if now.edition, now.life = old.edition, old.life; !same {
		now.edition, now.life = d.identity.NextEdition(), resource.NewLife()
	}
	for _, f := range v.SelectableFields {
		now.selectable[labelOf(f)] = cmp.Or(old.selectable[labelOf(f)], resource.NewLife())
	}
	return now
}

// schemaOf reads the schema of a version out of its definition when it is needed.
func schemaOf(name string, read func() (*v1.CustomResourceDefinition, error)) *structure.Schema {
	return structure.New(func() (*v1.CustomResourceValidation, bool, error) {
		d, err := read()
		if err != nil {
			return nil, false, err
		}
		s, err := apihelpers.GetSchemaForVersion(d, name)
		return s, d.Spec.PreserveUnknownFields, err
	})
}

// verbs are those of all custom resources, in the order in which discovery has always shown them.
var verbs = []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}

// kind is what is served in one version.
func (d *definition) kind(def *v1.CustomResourceDefinition, v *v1.CustomResourceDefinitionVersion, topology topology) *resource.Kind {
	names := def.Status.AcceptedNames
	s := d.versions[v.Name].schema
	k := &resource.Kind{
		Identity: d.identity,
		Version:  v.Name, Kind: names.Kind, ListKind: names.ListKind, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories, Verbs: slices.Clone(verbs), Generation: true, FreeFinalizers: true,
		Name:  validation.NameIsDNSSubdomain,
		Held:  func(resource.Object) bool { return false },
		Views: map[string]*resource.RuleSet{},
		Default: func(o resource.Object) {
			fill(s, o)
			if t, ok := o.(*tree.Object); ok {
				t.Simplify()
			}
		},
		Clean: func(o resource.Object) ([]error, error) {
			if parts, ok := tree.Parts(o); ok && s.Fits(parts) {
				return nil, nil
			}
			return s.Prune(content(o))
		},
		Edition: d.versions[v.Name].edition, Life: d.versions[v.Name].life,
		Fields: d.fields, FieldLives: d.versions[v.Name].selectable,
	}
	k.Changed = changed
	k.Topology = topology
	k.Main = mainRules(k, s, v.Storage)
	if sub := v.Subresources; sub != nil && sub.Status != nil {
		k.Views["status"] = statusRules(s)
		k.SeparateStatus(false)
	}
	if sub := v.Subresources; sub != nil && sub.Scale != nil {
		k.Scale = scaleOf(sub.Scale)
		checkScale(k, sub.Scale)
	}
	k.Columns, k.Row = columns(v.AdditionalPrinterColumns)
	if v.Deprecated {
		k.Deprecated = deprecation(def, v)
	}
	if !v.Served {
		return k
	}
	face := resource.OwnFace(k, func() runtime.Object { return k.New() })
	if len(d.fields) > 0 {
		face.Fields = map[string]string{}
		for label := range k.FieldLives {
			face.Fields[label] = label
		}
	}
	k.Faces = []*resource.Face{face}
	return k
}

// deprecation warns of a deprecated version. It names the newest of those that are served, and not deprecated, if that
// is a newer one.
func deprecation(def *v1.CustomResourceDefinition, v *v1.CustomResourceDefinitionVersion) string {
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	newest := v.Name
	for _, other := range def.Spec.Versions {
		if other.Served && !other.Deprecated && kubeversion.CompareKubeAwareVersionStrings(other.Name, newest) > 0 {
			newest = other.Name
		}
	}
	group, kind := def.Spec.Group, def.Status.AcceptedNames.Kind
	text := fmt.Sprintf("%s/%s %s is deprecated", group, v.Name, kind)
	if newest != v.Name {
		text += fmt.Sprintf("; use %s/%s %s", group, newest, kind)
	}
	return text
}

// refine completes an object as it was stored: another schema may have held then.
func (d *definition) refine(version string, object map[string]any) error {
	v := d.versions[version]
	if v == nil {
		return fmt.Errorf("it is stored in version %q, which its definition does not have", version)
	}
	return v.schema.Complete(object)
}

// prune removes from an object that was converted to a version what this does not know.
func (d *definition) prune(version string, object map[string]any) error {
	return d.versions[version].schema.PruneConverted(object)
}

// whole tells that refining would change nothing, and that the text is plain.
func (d *definition) whole(version string, text []byte) (whole, plain bool) {
	v := d.versions[version]
	if v == nil {
		return false, false
	}
	return v.schema.Whole(text)
}

// fill sets the defaults of an object.
func fill(s *structure.Schema, o resource.Object) {
	if parts, ok := tree.Parts(o); ok && s.Fits(parts) {
		return
	}
	_ = s.Default(content(o)) // a schema that cannot be read is an error of the validation
}

// content returns an object as a tree.
func content(o resource.Object) map[string]any { return tree.Of(o).Object }
