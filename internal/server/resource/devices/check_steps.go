package devices

import (
	"fmt"
	"math"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkSteps requires that all bounds are whole numbers of steps from the minimum. Fractions are computed in
// thousandths.
func checkSteps(r *v1.CapacityRequestPolicyRange, standard, capacity resource.Quantity, path *field.Path) field.ErrorList {
	bounds := []struct {
		name string
		q    *resource.Quantity
	}{{"default", &standard}, {"min", r.Min}, {"max", r.Max}, {"step", r.Step}}
	var errs field.ErrorList
	milli := false
	for _, b := range bounds {
		milli = milli || b.q != nil && fraction(b.q)
	}
	for _, b := range bounds {
		if milli && b.q != nil && b.q.Cmp(*resource.NewMilliQuantity(b.q.MilliValue(), b.q.Format)) != 0 {
			errs = append(errs, field.Invalid(path.Child(b.name), b.q.String(), "value cannot be represented as a milli value"))
		}
	}
	at := path.Child("step")
	switch {
	case len(errs) > 0 || r.Step == nil:
		return errs
	case r.Step.Sign() <= 0:
		return field.ErrorList{field.Invalid(at, r.Step.String(), "must be greater than zero")}
	}
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(capacity) > 0 {
		errs = append(errs, field.Invalid(at, r.Step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), capacity.String())))
	}
	sound := true
	for _, b := range bounds {
		if problem := wholeProblem(b.q); !milli && problem != "" {
			errs, sound = append(errs, field.Invalid(path.Child(b.name), b.q.String(), problem)), false
		}
	}
	if !sound {
		return errs
	}
	errs = append(errs, checkStep(&standard, r, milli, at)...)
	if r.Max != nil {
		errs = append(errs, checkStep(r.Max, r, milli, at)...)
	}
	return errs
}

// fraction reports whether a quantity is not an integer.
func fraction(q *resource.Quantity) bool {
	whole := q.DeepCopy()
	return !whole.RoundUp(0)
}

// wholeProblem returns why a quantity cannot be used in computations; empty if it can.
func wholeProblem(q *resource.Quantity) string {
	switch {
	case q == nil:
	case q.Sign() < 0:
		return validation.IsNegativeErrorMsg
	case q.CmpInt64(math.MaxInt64) > 0:
		return fmt.Sprintf("must not be larger than %d", math.MaxInt64)
	}
	return ""
}

func checkStep(q *resource.Quantity, r *v1.CapacityRequestPolicyRange, milli bool, path *field.Path) field.ErrorList {
	count := (*resource.Quantity).Value
	if milli {
		count = (*resource.Quantity).MilliValue
	}
	if (count(q)-count(r.Min))%count(r.Step) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String()))}
}
