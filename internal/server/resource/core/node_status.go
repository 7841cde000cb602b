package core

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// dropConfig removes the fields of dynamic kubelet configuration, which no longer exists.
func dropConfig(n *corev1.Node) {
	//lint:ignore SA1019 clients of old still send it
	n.Spec.ConfigSource, n.Status.Config = nil, nil
}

// checkSwap refuses a swap capacity that is not positive.
func checkSwap(s *corev1.NodeStatus) field.ErrorList {
	if s.NodeInfo.Swap == nil || s.NodeInfo.Swap.Capacity == nil || *s.NodeInfo.Swap.Capacity > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(nodeMetaPath.Child("nodeSwapStatus", "capacity"), *s.NodeInfo.Swap.Capacity, "must be greater than zero")}
}

var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*$`)

// checkFeatures requires a sorted list without duplicates.
func checkFeatures(names []string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "declaredFeatures")
	for i, name := range names {
		switch {
		case i > 0 && name == names[i-1]:
			errs = append(errs, field.Duplicate(path.Index(i), name))
		case i > 0 && name < names[i-1]:
			errs = append(errs, field.Invalid(path.Index(i), name, "list must be sorted alphabetically"))
		}
		if !featureName.MatchString(name) {
			errs = append(errs, field.Invalid(path.Index(i), name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, "+
				"with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", name)))
		}
	}
	return errs
}
