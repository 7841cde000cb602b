package conversion

import (
	"errors"
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// same tells whether two objects are one.
func same(given, made *unstructured.Unstructured) error {
	for _, what := range []struct {
		name        string
		given, made any
	}{
		{"kind", given.GetKind(), made.GetKind()},
		{"name", given.GetName(), made.GetName()},
		{"namespace", given.GetNamespace(), made.GetNamespace()},
		{"UID", given.GetUID(), made.GetUID()},
	} {
		if what.given != what.made {
			return fmt.Errorf("must have the same %s: %v != %v", what.name, what.given, what.made)
		}
	}
	return nil
}

// restoreMetadata gives a converted object the metadata that it had, with the labels and annotations that the webhook
// gave it.
func restoreMetadata(given, made *unstructured.Unstructured) error {
	value, ok := made.Object["metadata"]
	if !ok {
		return errors.New("missing metadata in converted object")
	}
	got, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", value)
	}
	meta := map[string]any{}
	if had, ok := given.Object["metadata"].(map[string]any); ok {
		meta = runtime.DeepCopyJSON(had)
	}
	made.Object["metadata"] = meta
	for name, check := range map[string]func(map[string]string) field.ErrorList{
		"labels": func(m map[string]string) field.ErrorList {
			return metav1validation.ValidateLabels(m, field.NewPath("metadata", "labels"))
		},
		"annotations": func(m map[string]string) field.ErrorList {
			return apivalidation.ValidateAnnotations(m, field.NewPath("metadata", "annotation"))
		},
	} {
		if err := takeOver(meta, got[name], name, check); err != nil {
			return err
		}
	}
	return nil
}

// takeOver sets a map of texts in the metadata to what a webhook gave. What it has not changed is not checked again.
func takeOver(meta map[string]any, given any, name string, check func(map[string]string) field.ErrorList) error {
	if given == nil {
		delete(meta, name)
		return nil
	}
	now, ok := given.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, given)
	}
	before, ok := meta[name].(map[string]any)
	if !ok && meta[name] != nil {
		return fmt.Errorf("invalid metadata.%s of type %T in original object", name, meta[name])
	}
	changed := len(before) != len(now)
	texts := make(map[string]string, len(now))
	for k, v := range now {
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, k, v)
		}
		changed = changed || before[k] != v
		texts[k] = text
	}
	if changed {
		if errs := check(texts); len(errs) > 0 {
			return errs.ToAggregate()
		}
	}
	meta[name] = now
	return nil
}
