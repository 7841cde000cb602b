package manifests

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/admissionregistration"
)

// set is the objects of some files, while they are read.
type set struct {
	kinds  []*resource.Kind
	all    []entry
	places map[identity]string
}

// entry is an object and where it is from.
type entry struct {
	identity
	object resource.Object
	path   string
}

// identity is what no other object may have.
type identity struct {
	kind int // its place among the kinds
	name string
}

// read decodes and validates the objects of files. They come in the order of their kinds and names.
func read(kinds []*resource.Kind, files []file) ([]resource.Object, error) {
	s := &set{kinds: kinds, places: map[identity]string{}}
	for _, f := range files {
		if err := s.add(f); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	slices.SortFunc(s.all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	var out []resource.Object
	for _, e := range s.all {
		if err := s.checkBinding(e.object); err != nil {
			return nil, fmt.Errorf("%s: %s %q: %w", e.path, s.kinds[e.kind].Kind, e.name, err)
		}
		out = append(out, e.object)
	}
	return out, nil
}

// add adds the objects of a file.
func (s *set) add(f file) error {
	texts, err := f.documents()
	if err != nil {
		return err
	}
	for i, text := range texts {
		some, err := s.objects(text, metav1.TypeMeta{})
		if err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
		for _, o := range some {
			if err := s.addObject(o, f.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// addObject adds an object that is valid by itself.
func (s *set) addObject(o resource.Object, path string) error {
	at := slices.IndexFunc(s.kinds, func(k *resource.Kind) bool { return k.Kind == o.GetObjectKind().GroupVersionKind().Kind })
	kind, id := s.kinds[at], identity{at, o.GetName()}
	kind.Default(o)
	kind.Main.PrepareCreate(context.Background(), o)
	if err := check(kind, o).ToAggregate(); err != nil {
		return fmt.Errorf("%s %q: %w", kind.Kind, id.name, err)
	}
	if other, taken := s.places[id]; taken {
		return fmt.Errorf("%s %q: there is another one of this name in %s", kind.Kind, id.name, other)
	}
	s.places[id] = path
	s.all = append(s.all, entry{id, o, path})
	return nil
}

// check validates an object as the API does, and as a static one.
func check(kind *resource.Kind, o resource.Object) field.ErrorList {
	metadata := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(o, false, validation.NameIsDNSSubdomain, metadata)
	if name := o.GetName(); name != "" && !strings.HasSuffix(name, admissionregistration.StaticSuffix) {
		errs = append(errs, field.Invalid(metadata.Child("name"), name, fmt.Sprintf("must end with %q", admissionregistration.StaticSuffix)))
	}
	errs = append(errs, kind.Main.Validate(context.Background(), o)...)
	return append(errs, checkReferences(o)...)
}

// checkReferences forbids what leads into the API.
func checkReferences(o resource.Object) (errs field.ErrorList) {
	forbid := func(there bool, path *field.Path, words string) {
		if there {
			errs = append(errs, field.Forbidden(path, words))
		}
	}
	service := func(c *admissionv1.WebhookClientConfig, i int) {
		forbid(c.Service != nil, field.NewPath("webhooks").Index(i).Child("clientConfig", "service"), "a static webhook must have a url")
	}
	param := func(there bool, name string) {
		forbid(there, field.NewPath("spec", name), "static policies have no parameters")
	}
	switch o := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			service(&o.Webhooks[i].ClientConfig, i)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			service(&o.Webhooks[i].ClientConfig, i)
		}
	case *admissionv1.MutatingAdmissionPolicy:
		param(o.Spec.ParamKind != nil, "paramKind")
	case *admissionv1.ValidatingAdmissionPolicy:
		param(o.Spec.ParamKind != nil, "paramKind")
	case *admissionv1.MutatingAdmissionPolicyBinding:
		param(o.Spec.ParamRef != nil, "paramRef")
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		param(o.Spec.ParamRef != nil, "paramRef")
	}
	return errs
}

// checkBinding lets bindings be to policies of the set, whose kind is the first.
func (s *set) checkBinding(o resource.Object) error {
	var to string
	switch o := o.(type) {
	case *admissionv1.MutatingAdmissionPolicyBinding:
		to = o.Spec.PolicyName
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		to = o.Spec.PolicyName
	default:
		return nil
	}
	if _, there := s.places[identity{0, to}]; !there {
		return field.Invalid(field.NewPath("spec", "policyName"), to, "there is no such policy in the directory")
	}
	return nil
}
