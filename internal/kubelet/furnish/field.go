package furnish

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// field returns the value of a field for the downward API.
func (f *Furnisher) field(pod *corev1.Pod, path string, ips []string) (string, error) {
	if base, key, ok := strings.Cut(path, "['"); ok {
		key = strings.TrimSuffix(key, "']")
		switch base {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(f.Addresses), nil
	case "status.hostIPs":
		return strings.Join(f.Addresses, ","), nil
	case "status.podIP":
		return first(ips), nil
	case "status.podIPs":
		return strings.Join(ips, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

func first(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// lines formats a map for a downward API file.
func lines(m map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%v=%q", key, m[key]))
	}
	return strings.Join(all, "\n")
}

// resourceField returns a request or limit of a container in units of the divisor. Without a limit it is the node's
// allocatable amount.
func (f *Furnisher) resourceField(_ *corev1.Pod, c *corev1.Container, s *corev1.ResourceFieldSelector) (string, error) {
	if c == nil {
		return "", fmt.Errorf("container %s not found", s.ContainerName)
	}
	kind, name, _ := strings.Cut(s.Resource, ".")
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	}
	q, ok := list[corev1.ResourceName(name)]
	if !ok && kind == "limits" {
		q = f.Allocatable[corev1.ResourceName(name)]
	}
	return divide(q, s.Divisor, name == "cpu"), nil
}

func divide(q, divisor resource.Quantity, milli bool) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	n, d := q.Value(), divisor.Value()
	if milli {
		n, d = q.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt((n+d-1)/d, 10)
}
