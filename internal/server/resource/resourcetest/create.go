package resourcetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"

	"github.com/millrace/millrace/internal/server/resource"
)

// uid stands for any uid in recorded responses.
const uid = "UID"

// Decode decodes a body strictly, converts it to the kind's own version, and sets defaults.
func Decode(f *resource.Face, body []byte) (resource.Object, error) {
	o := f.New()
	strict, err := strictjson.UnmarshalStrict(body, o)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("strict: %v", strict)
	}
	if f.To != nil {
		o = f.To(o)
	}
	obj := o.(resource.Object)
	obj.GetObjectKind().SetGroupVersionKind(f.Of.GroupVersionKind())
	f.Of.Default(obj)
	return obj, nil
}

// Create does what the registry does with a new object before it is stored.
func Create(f *resource.Face, o resource.Object) field.ErrorList {
	ctx := resource.WithCall(context.Background(), resource.Call{User: "admin", Groups: []string{"system:masters"}, Face: f.GroupVersion()})
	o.SetUID(uid)
	o.SetCreationTimestamp(metav1.NewTime(time.Now()))
	if o.GetName() == "" && o.GetGenerateName() != "" {
		o.SetName(o.GetGenerateName() + "abcde")
	}
	f.Of.Main.PrepareCreate(ctx, o)
	errs := validation.ValidateObjectMetaAccessor(o, f.Of.Namespaced, f.Of.Name, field.NewPath("metadata"))
	return append(errs, f.Of.Main.Validate(ctx, o)...)
}

// Update does what the registry does with a changed object: o is the object of the request, old the stored one.
func Update(k *resource.Kind, rules *resource.RuleSet, o, old resource.Object) field.ErrorList {
	ctx := resource.WithCall(context.Background(), resource.Call{User: "admin", Groups: []string{"system:masters"}, Face: k.GroupVersion()})
	k.Default(o)
	rules.PrepareUpdate(ctx, o, old)
	return rules.ValidateUpdate(ctx, o, old)
}

// Causes formats errors as "reason field: message", like the details of a Status.
func Causes(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, cause{Reason: string(metav1.CauseType(e.Type)), Field: e.Field, Message: e.ErrorBody()}.String())
	}
	return out
}

type cause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Field   string `json:"field"`
}

func (c cause) String() string { return c.Reason + " " + c.Field + ": " + c.Message }

func lines(s []string) string { return "\n    " + strings.Join(s, "\n    ") }
