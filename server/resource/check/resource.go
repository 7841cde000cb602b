package check

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sets of resource names without a domain, by what they may be used for.
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

// ResourceName wants the name of a resource: one that Kubernetes knows, or one with a domain.
func ResourceName(name string, path *field.Path) field.ErrorList {
	errs := Qualified(name, path)
	if len(errs) == 0 && !strings.Contains(name, "/") && !standardResources[name] && !hugepages(name) && !strings.HasPrefix(name, "requests.hugepages-") {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return errs
}

// ContainerResourceName wants the name of a resource that containers use.
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

// QuotaResourceName wants the name of something that quotas bound.
func QuotaResourceName(name string, path *field.Path) field.ErrorList {
	errs := ResourceName(name, path)
	if !strings.Contains(name, "/") && !IsQuotaResource(name) {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource for quota"))
	}
	return errs
}

// IsQuotaResource tells whether Kubernetes itself counts a resource for quotas.
func IsQuotaResource(name string) bool {
	return quotaResources[name] || hugepages(name) || strings.HasPrefix(name, "requests.hugepages-")
}

// native tells whether a name belongs to Kubernetes.
func native(name string) bool {
	return !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}

// extended tells whether a name is that of a resource that Kubernetes only counts.
func extended(name string) bool {
	if native(name) || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

// Overcommits tells whether more of a resource may be promised than there is.
func Overcommits(name string) bool { return native(name) && !hugepages(name) }

// Quantity wants an amount of a resource: not negative, and whole where halves make no sense.
func Quantity(name string, q resource.Quantity, path *field.Path) field.ErrorList {
	errs := NonNegativeQuantity(q, path)
	if (wholeResources[name] || extended(name)) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q, "must be an integer"))
	}
	return errs
}

// NonNegativeQuantity wants an amount of at least nothing.
func NonNegativeQuantity(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), "must be greater than or equal to 0")}
}

// PositiveQuantity wants an amount of more than nothing.
func PositiveQuantity(q resource.Quantity, path *field.Path) field.ErrorList {
	if q.Sign() > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), "must be greater than zero")}
}

// IsExtendedResource tells whether a name is that of a resource that Kubernetes only counts.
func IsExtendedResource(name string) bool { return extended(name) }
