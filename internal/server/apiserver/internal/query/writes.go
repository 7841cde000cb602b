package query

import (
	"fmt"
	"net/url"
	"slices"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Write is the parsed query of a write.
type Write struct {
	DryRun     bool
	Manager    string
	Validation string
	Force      bool
}

const LongestManager = 128

func ParseWrite(q url.Values, kind string) (Write, error) {
	o := Write{Manager: q.Get("fieldManager"), Validation: q.Get("fieldValidation"), Force: Bool(q, "force")}
	var errs field.ErrorList
	if all, given := q["dryRun"]; given {
		o.DryRun = true
		if slices.ContainsFunc(all, func(one string) bool { return one != metav1.DryRunAll }) {
			errs = append(errs, field.NotSupported(field.NewPath("dryRun"), all, []string{metav1.DryRunAll}))
		}
	}
	errs = append(errs, checkManager(o.Manager)...)
	switch o.Validation {
	case "", metav1.FieldValidationIgnore, metav1.FieldValidationStrict, metav1.FieldValidationWarn:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("fieldValidation"), o.Validation,
			[]string{"", metav1.FieldValidationIgnore, metav1.FieldValidationStrict, metav1.FieldValidationWarn}))
	}
	return o, InvalidOptions(kind, errs)
}

func checkManager(name string) field.ErrorList {
	path := field.NewPath("fieldManager")
	if len(name) > LongestManager {
		return field.ErrorList{field.TooLong(path, name, LongestManager)}
	}
	for i, r := range name {
		if !unicode.IsPrint(r) {
			return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("invalid character %#U (at position %d)", r, i))}
		}
	}
	return nil
}
