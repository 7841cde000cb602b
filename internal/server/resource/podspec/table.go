package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NamesAndImages returns the table cells with the names and images of containers.
func NamesAndImages(containers []corev1.Container) (names, images string) {
	if len(containers) == 1 {
		return containers[0].Name, containers[0].Image
	}
	var n, i strings.Builder
	for at := range containers {
		if at > 0 {
			n.WriteByte(',')
			i.WriteByte(',')
		}
		n.WriteString(containers[at].Name)
		i.WriteString(containers[at].Image)
	}
	return n.String(), i.String()
}
