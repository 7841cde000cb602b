package custom

import (
	"context"
	"fmt"
	"math"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// scaleOf reads and writes the numbers at the definition's paths.
func scaleOf(s *v1.CustomResourceSubresourceScale) *resource.Scaling {
	wanted, present := steps(s.SpecReplicasPath), steps(s.StatusReplicasPath)
	return &resource.Scaling{
		Checked: true,
		Missing: func(o resource.Object) error {
			if _, found, err := unstructured.NestedInt64(content(o), wanted...); err != nil || !found {
				return fmt.Errorf("the spec replicas field %q does not exist", s.SpecReplicasPath)
			}
			return nil
		},
		Set: func(o resource.Object, n int32) { _ = unstructured.SetNestedField(content(o), int64(n), wanted...) },
		Get: func(o resource.Object) *autoscalingv1.Scale {
			out := &autoscalingv1.Scale{
				TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
				ObjectMeta: metav1.ObjectMeta{
					Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
					ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
				},
				Spec:   autoscalingv1.ScaleSpec{Replicas: numberAt(o, wanted)},
				Status: autoscalingv1.ScaleStatus{Replicas: numberAt(o, present)},
			}
			if s.LabelSelectorPath != nil {
				out.Status.Selector, _, _ = unstructured.NestedString(content(o), steps(*s.LabelSelectorPath)...)
			}
			return out
		},
	}
}

// numberAt is the number at a path; 0 if there is none. Validation keeps it within bounds.
func numberAt(o resource.Object, path []string) int32 {
	n, _, _ := unstructured.NestedInt64(content(o), path...)
	return int32(n)
}

// checkScale adds to the rules that the paths lead to what they should.
func checkScale(k *resource.Kind, s *v1.CustomResourceSubresourceScale) {
	wanted := func(o resource.Object) field.ErrorList { return checkNumber(o, s.SpecReplicasPath) }
	present := func(o resource.Object) field.ErrorList {
		return append(checkNumber(o, s.StatusReplicasPath), checkSelector(o, s.LabelSelectorPath)...)
	}
	main, validate, update := k.Main, k.Main.Validate, k.Main.ValidateUpdate
	main.Validate = func(ctx context.Context, o resource.Object) field.ErrorList {
		return append(append(validate(ctx, o), wanted(o)...), present(o)...)
	}
	main.ValidateUpdate = func(ctx context.Context, o, old resource.Object) field.ErrorList {
		return append(append(update(ctx, o, old), wanted(o)...), present(o)...)
	}
	if status, ok := k.Views["status"]; ok {
		updateStatus := status.ValidateUpdate
		status.ValidateUpdate = func(ctx context.Context, o, old resource.Object) field.ErrorList {
			return append(updateStatus(ctx, o, old), present(o)...)
		}
	}
}

func checkNumber(o resource.Object, path string) field.ErrorList {
	if text, ok := textAt(o, path); ok && (text == "" || fewDigits(text)) {
		return nil
	}
	n, _, err := unstructured.NestedInt64(content(o), steps(path)...)
	switch at := field.NewPath(path); {
	case err != nil:
		return field.ErrorList{field.Invalid(at, n, err.Error())}
	case n < 0:
		return field.ErrorList{field.Invalid(at, n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

// textAt returns the text of the value at a path, or nothing. ok is false if the object has to be decoded for that.
func textAt(o resource.Object, path string) (text string, ok bool) {
	parts, ok := tree.Parts(o)
	if !ok {
		return "", false
	}
	first, rest, nested := strings.Cut(strings.TrimPrefix(path, "."), ".")
	part := parts.Part(first)
	switch {
	case part == nil:
		return "", first != "metadata" && first != "kind" && first != "apiVersion"
	case !nested:
		return part.Text, true
	}
	return jsontext.At(part.Text, strings.Split(rest, ".")...)
}

// fewDigits reports whether a text is an integer that is neither negative nor large.
func fewDigits(text string) bool {
	return len(text) < len("2147483647") && strings.Trim(text, "0123456789") == ""
}

func checkSelector(o resource.Object, path *string) field.ErrorList {
	if path == nil {
		return nil
	}
	if text, ok := textAt(o, *path); ok && (text == "" || text[0] == '"') {
		return nil
	}
	text, _, err := unstructured.NestedString(content(o), steps(*path)...)
	if err != nil {
		return field.ErrorList{field.Invalid(field.NewPath(*path), text, err.Error())}
	}
	return nil
}
