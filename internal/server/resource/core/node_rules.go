package core

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

var nodeRules = resource.Rules[*corev1.Node]{
	PrepareCreate: func(_ context.Context, n *corev1.Node) { dropConfig(n) },
	Validate:      func(_ context.Context, n *corev1.Node) field.ErrorList { return checkNode(n) },
	PrepareUpdate: func(_ context.Context, n, _ *corev1.Node) { dropConfig(n) },
	ValidateUpdate: func(_ context.Context, n, old *corev1.Node) field.ErrorList {
		return append(checkNode(n), checkNodeUpdate(n, old)...)
	},
	Warnings: nodeWarnings,
}

var nodeStatusRules = resource.Rules[*corev1.Node]{
	ValidateUpdate: func(_ context.Context, n, old *corev1.Node) field.ErrorList { return checkNodeUpdate(n, old) },
}

var (
	nodeMetaPath = field.NewPath("metadata")
	nodeSpecPath = field.NewPath("spec")
)

const preferAvoidPods = corev1.PreferAvoidPodsAnnotationKey

func checkNode(n *corev1.Node) field.ErrorList {
	errs := checkAvoidPods(n.Annotations)
	errs = append(errs, checkTaints(n.Spec.Taints)...)
	errs = append(errs, checkNodeResources(n)...)
	errs = append(errs, checkSwap(&n.Status)...)
	errs = append(errs, checkFeatures(n.Status.DeclaredFeatures)...)
	return append(errs, checkPodCIDRs(n.Spec.PodCIDRs)...)
}

func checkAvoidPods(annotations map[string]string) field.ErrorList {
	text := annotations[preferAvoidPods]
	if text == "" {
		return nil
	}
	path := nodeMetaPath.Child("annotations")
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		return field.ErrorList{field.Invalid(path.Child("AvoidPods"), preferAvoidPods, err.Error())}
	}
	var errs field.ErrorList
	for i, e := range avoid.PreferAvoidPods {
		at := path.Child(preferAvoidPods).Index(i).Child("podSignature")
		switch c := e.PodSignature.PodController; {
		case c == nil:
			errs = append(errs, field.Required(at, ""))
		case c.Controller == nil || !*c.Controller:
			errs = append(errs, field.Invalid(at.Child("PodController"), false, "must point to a controller"))
		}
	}
	return errs
}

type taintID struct {
	key    string
	effect corev1.TaintEffect
}

func checkTaints(taints []corev1.Taint) field.ErrorList {
	if len(taints) == 0 {
		return nil
	}
	var errs field.ErrorList
	path := nodeMetaPath.Child("taints")
	known := map[taintID]bool{}
	for i, t := range taints {
		at := path.Index(i)
		errs = append(errs, check.Invalid(at.Child("key"), t.Key, validation.IsQualifiedName(t.Key))...)
		errs = append(errs, check.Invalid(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
		if t.Effect == "" {
			errs = append(errs, field.Required(at.Child("effect"), ""))
		} else {
			errs = append(errs, check.OneOf(t.Effect, at.Child("effect"),
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...)
		}
		id := taintID{t.Key, t.Effect}
		if known[id] {
			duplicate := field.Duplicate(at, quote.Of(t))
			duplicate.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, duplicate)
		}
		known[id] = true
	}
	return errs
}

func checkNodeResources(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	for _, l := range [...]struct {
		name string
		list corev1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for _, name := range sortedNames(l.list) {
			q := l.list[name]
			if q.Sign() < 0 || podspec.IsIntegerResource(name) && q.MilliValue()%1000 != 0 {
				errs = append(errs, checkNodeQuantity(name, q, field.NewPath("status", l.name, string(name)))...)
			}
		}
	}
	return errs
}

func checkNodeQuantity(name corev1.ResourceName, q apiresource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(path, q.String(), "must be greater than or equal to 0"))
	}
	if podspec.IsIntegerResource(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, &q, "must be an integer"))
	}
	return errs
}

func checkPodCIDRs(cidrs []string) field.ErrorList {
	if len(cidrs) == 0 {
		return nil
	}
	var errs field.ErrorList
	path := nodeSpecPath.Child("podCIDRs")
	families := map[bool]int{}
	for i, c := range cidrs {
		errs = append(errs, validation.IsValidCIDRForLegacyField(path.Index(i), c, true, nil)...)
		families[isIPv6(c)]++
	}
	if len(cidrs) == 1 {
		return errs
	}
	for i, c := range cidrs {
		if _, _, err := netutils.ParseCIDRSloppy(c); err != nil {
			families[true] = 0 // an invalid range has no family
			errs = append(errs, field.InternalError(path, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[%d]: <nil> (%w)", i, err)))
			break
		}
	}
	if len(cidrs) > 2 || families[true] != 1 {
		errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

// checkNodeUpdate allows what identifies a node to be set once and never changed.
func checkNodeUpdate(n, old *corev1.Node) field.ErrorList {
	errs := checkAvoidPods(n.Annotations)
	errs = append(errs, checkNodeResources(n)...)
	if len(n.Status.Addresses) > 1 {
		known := map[corev1.NodeAddress]bool{}
		for i, a := range n.Status.Addresses {
			if known[a] {
				errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), quote.Of(a)))
			}
			known[a] = true
		}
	}
	if len(old.Spec.PodCIDRs) > 0 && !equality.Semantic.DeepEqual(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		if len(n.Spec.PodCIDRs) != len(old.Spec.PodCIDRs) {
			errs = append(errs, field.Forbidden(nodeSpecPath.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
		} else {
			for i := range n.Spec.PodCIDRs {
				if n.Spec.PodCIDRs[i] != old.Spec.PodCIDRs[i] {
					errs = append(errs, field.Forbidden(nodeSpecPath.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
				}
			}
		}
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		errs = append(errs, field.Forbidden(nodeSpecPath.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	if !equality.Semantic.DeepEqual(n.Spec.Taints, old.Spec.Taints) {
		errs = append(errs, checkTaints(n.Spec.Taints)...)
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(nodeSpecPath.Child("externalID"), "may not be updated"))
	}
	return errs
}

func nodeWarnings(_ context.Context, n, _ *corev1.Node) []string {
	var w []string
	if n.Spec.DoNotUseExternalID != "" {
		w = append(w, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	return w
}
