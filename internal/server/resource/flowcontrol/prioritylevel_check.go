package flowcontrol

import (
	"fmt"
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

const (
	// roundTrip is an annotation that has a meaning only in v1beta3.
	roundTrip = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
	maxQueues = 10_000_000
	// maxEntropy is how many bits of a hash the choice of queues may use.
	maxEntropy = 60
)

func checkLevel(l level) field.ErrorList {
	var errs field.ErrorList
	if _, set := l.Annotations[roundTrip]; set {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations"), fmt.Sprintf("annotation '%s' is forbidden", roundTrip)))
	}
	path := field.NewPath("spec")
	errs = append(errs, checkLevelSpec(l.Name, &l.Spec, path)...)
	for _, m := range mandatoryLevels() {
		if m.Name == l.Name {
			errs = append(errs, checkMandatory(l, m, path)...)
		}
	}
	return append(errs, checkConditions(levelConditions(l))...)
}

// checkMandatory requires the server's own spec, except for the lendable percentage of the exempt level.
func checkMandatory(l, want level, path *field.Path) field.ErrorList {
	have, words := l.Spec, "spec of '%s' must equal the fixed value"
	if l.Name == exempt {
		have.Exempt, words = want.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
	}
	if equality.Semantic.DeepEqual(have, want.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, quote.Of(l.Spec), fmt.Sprintf(words, l.Name))}
}

func checkLevelSpec(name string, s *flowcontrolv1.PriorityLevelConfigurationSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if (name == exempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(path.Child("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(path.Child("limited"), "must be nil if the type is not Limited"))
		}
		if e := s.Exempt; e != nil {
			errs = append(errs, checkShares(e.NominalConcurrencyShares, path.Child("exempt"))...)
			errs = append(errs, checkLending(e.LendablePercent, path.Child("exempt"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			errs = append(errs, field.Forbidden(path.Child("exempt"), "must be nil if the type is Limited"))
		}
		if s.Limited == nil {
			return append(errs, field.Required(path.Child("limited"), "must not be empty when type is Limited"))
		}
		errs = append(errs, checkLimited(s.Limited, path.Child("limited"))...)
	case "":
		errs = append(errs, field.Required(path.Child("type"), ""))
	default:
		errs = append(errs, check.OneOf(s.Type, path.Child("type"), flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)...)
	}
	return errs
}

func checkShares(n *int32, path *field.Path) field.ErrorList {
	if n == nil || *n >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("nominalConcurrencyShares"), *n, "must be a non-negative integer")}
}

func checkLending(n *int32, path *field.Path) field.ErrorList {
	if n == nil || *n >= 0 && *n <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("lendablePercent"), *n, "must be between 0 and 100, inclusive")}
}

func checkLimited(m *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) field.ErrorList {
	errs := checkShares(m.NominalConcurrencyShares, path)
	errs = append(errs, checkResponse(&m.LimitResponse, path.Child("limitResponse"))...)
	errs = append(errs, checkLending(m.LendablePercent, path)...)
	if n := m.BorrowingLimitPercent; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("borrowingLimitPercent"), *n, "if specified, must be a non-negative integer"))
	}
	return errs
}

func checkResponse(r *flowcontrolv1.LimitResponse, path *field.Path) field.ErrorList {
	at := path.Child("queuing")
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			return field.ErrorList{field.Forbidden(at, "must be nil if limited.limitResponse.type is not Limited")}
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			return field.ErrorList{field.Required(at, "must not be empty if limited.limitResponse.type is Limited")}
		}
		return checkQueuing(r.Queuing, at)
	case "":
		return field.ErrorList{field.Required(path.Child("type"), "")}
	default:
		return check.OneOf(r.Type, path.Child("type"), flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)
	}
	return nil
}

func checkQueuing(q *flowcontrolv1.QueuingConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(path.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	switch at := path.Child("queues"); {
	case q.Queues <= 0:
		errs = append(errs, field.Invalid(at, q.Queues, "must be positive"))
	case q.Queues > maxQueues:
		errs = append(errs, field.Invalid(at, q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	switch at := path.Child("handSize"); {
	case q.HandSize <= 0:
		errs = append(errs, field.Invalid(at, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(at, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	default:
		if bits := entropy(q.Queues, q.HandSize); bits > maxEntropy {
			errs = append(errs, field.Invalid(at, q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, maxEntropy)))
		}
	}
	return errs
}

// entropy returns how many bits of a hash are needed to choose a hand of queues, estimated as in Kubernetes.
func entropy(queues, hand int32) int {
	return int(math.Ceil(math.Log2(float64(queues)) * float64(hand)))
}
