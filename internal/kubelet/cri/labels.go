package cri

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// The labels and annotations on containers and sandboxes. They are those of Kubernetes' kubelet, so that other tools
// understand them.
const (
	labelPod           = "io.kubernetes.pod.name"
	labelNamespace     = "io.kubernetes.pod.namespace"
	labelUID           = "io.kubernetes.pod.uid"
	labelContainer     = "io.kubernetes.container.name"
	labelOwner         = "dev.millrace.kubelet"
	annotationHash     = "io.kubernetes.container.hash"
	annotationRestarts = "io.kubernetes.container.restartCount"
	annotationGrace    = "io.kubernetes.pod.terminationGracePeriod"
	annotationStop     = "io.kubernetes.container.preStopHandler"
	annotationPorts    = "io.kubernetes.container.ports"
	annotationImage    = "dev.millrace.image"
	annotationLog      = "dev.millrace.log"
	annotationVolumes  = "dev.millrace.volume-images"
)

func podLabels(namespace, name string, uid types.UID) map[string]string {
	return map[string]string{labelPod: name, labelNamespace: namespace, labelUID: string(uid), labelOwner: "true"}
}

func containerLabels(spec *container.Spec) map[string]string {
	labels := podLabels(spec.Pod.Namespace, spec.Pod.Name, spec.Pod.UID)
	labels[labelContainer] = spec.Container.Name
	return labels
}

func containerAnnotations(spec *container.Spec, log string) map[string]string {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if s := spec.Pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = *s
	}
	notes := map[string]string{}
	maps.Copy(notes, spec.Annotations)
	maps.Copy(notes, map[string]string{
		annotationGrace: strconv.FormatInt(grace, 10),
		annotationHash:  strconv.FormatUint(spec.Hash, 16), annotationRestarts: strconv.Itoa(int(spec.Attempt)), annotationImage: spec.Container.Image,
		annotationLog: log,
	})
	if len(spec.VolumeImages) > 0 {
		notes[annotationVolumes] = strings.Join(slices.Sorted(maps.Values(spec.VolumeImages)), ",")
	}
	c := spec.Container
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return notes
	}
	for name, value := range map[string]any{annotationStop: c.Lifecycle.PreStop, annotationPorts: c.Ports} {
		if text, err := json.Marshal(value); err == nil { // the value came from JSON, so it can be encoded
			notes[name] = string(text)
		}
	}
	return notes
}

// hook reads a container's preStop hook and ports from its annotations.
func hook(notes map[string]string) (*corev1.LifecycleHandler, []corev1.ContainerPort) {
	text, ok := notes[annotationStop]
	if !ok {
		return nil, nil
	}
	h, ports := &corev1.LifecycleHandler{}, []corev1.ContainerPort(nil)
	if json.Unmarshal([]byte(text), h) != nil {
		return nil, nil
	}
	if json.Unmarshal([]byte(notes[annotationPorts]), &ports) != nil {
		ports = nil
	}
	return h, ports
}
