package check

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sets of resource names without a domain, by where they may be used
var (
	containerResources = set("cpu", "memory", "ephemeral-storage")
	quotaResources     = set("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
		"requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services",
		"replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps", "services.nodeports", "services.loadbalancers")
	standardResources = set("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage",
		"limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods", "resourcequotas", "services", "replicationcontrollers",
		"secrets", "configmaps", "persistentvolumeclaims", "storage", "requests.storage", "services.nodeports", "services.loadbalancers")
	wholeResources = set("pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
		"persistentvolumeclaims", "services.nodeports", "services.loadbalancers")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

func hugepages(name string) bool { return strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) }

// ResourceName requires the name of a resource: one that Kubernetes knows, or one with a domain.
func ResourceName(name string, path *field.Path) field.ErrorList {
	errs := Qualified(name, path)
	if len(errs) == 0 && !strings.Contains(name, "/") && !standardResources[name] && !hugepages(name) && !strings.HasPrefix(name, "requests.hugepages-") {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return errs
}

// ContainerResourceName requires the name of a resource that containers can request.
func ContainerResourceName(name string, path *field.Path) field.ErrorList {
	errs := ResourceName(name, path)
	switch {
	case !strings.Contains(name, "/"):
		if !containerResources[name] && !hugepages(name) {
			errs = append(errs, field.Invalid(path, name, "must be a standard resource for containers"))
		}
	case !native(name) && !extended(name):
		errs = append(errs, field.Invalid(path, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// QuotaResourceName requires the name of a resource that quotas can limit.
func QuotaResourceName(name string, path *field.Path) field.ErrorList {
	errs := ResourceName(name, path)
	if !strings.Contains(name, "/") && !IsQuotaResource(name) {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource for quota"))
	}
	return errs
}

// IsQuotaResource reports whether a resource is a standard resource of quotas.
func IsQuotaResource(name string) bool {
	return quotaResources[name] || hugepages(name) || strings.HasPrefix(name, "requests.hugepages-")
}

// native reports whether a name belongs to Kubernetes.
func native(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}

// extended reports whether a name is that of an extended resource.
func extended(name string) bool {
	if native(name) || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

// Overcommits reports whether the limits of a resource may exceed its requests.
func Overcommits(name string) bool { return native(name) && !hugepages(name) }

// Quantity requires an amount that is not negative, and an integer for resources that cannot be divided.
func Quantity(name string, q resource.Quantity, path *field.Path) field.ErrorList {
	errs := NonNegativeQuantity(q, path)
	if (wholeResources[name] || extended(name)) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q, "must be an integer"))
	}
	return errs
}

// NonNegativeQuantity requires an amount of at least zero.
func NonNegativeQuantity(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), "must be greater than or equal to 0")}
}

// PositiveQuantity requires an amount above zero.
func PositiveQuantity(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), "must be greater than zero")}
}

// IsExtendedResource reports whether a name is that of an extended resource.
func IsExtendedResource(name string) bool { return extended(name) }
