package cri

import (
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/kubelet/container"
)

// The labels and annotations by which what was started is found again. They are those of the kubelet, so that tools that
// look at a runtime understand what they see.
const (
	labelPod       = "io.kubernetes.pod.name"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelUID       = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
	labelOwner     = "dev.millrace.kubelet"
	noteHash       = "io.kubernetes.container.hash"
	noteRestarts   = "io.kubernetes.container.restartCount"
	noteGrace      = "io.kubernetes.pod.terminationGracePeriod"
	noteStop       = "io.kubernetes.container.preStopHandler"
	notePorts      = "io.kubernetes.container.ports"
	noteImage      = "dev.millrace.image"
	noteLog        = "dev.millrace.log"
)

func podLabels(namespace, name string, uid types.UID) map[string]string {
	return map[string]string{labelPod: name, labelNamespace: namespace, labelUID: string(uid), labelOwner: "true"}
}

func containerLabels(spec *container.Spec) map[string]string {
	labels := podLabels(spec.Pod.Namespace, spec.Pod.Name, spec.Pod.UID)
	labels[labelContainer] = spec.Container.Name
	return labels
}

func containerNotes(spec *container.Spec, log string) map[string]string {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if s := spec.Pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = *s
	}
	notes := map[string]string{
		noteGrace: strconv.FormatInt(grace, 10),
		noteHash:  strconv.FormatUint(spec.Hash, 16), noteRestarts: strconv.Itoa(int(spec.Attempt)), noteImage: spec.Container.Image,
		noteLog: log,
	}
	c := spec.Container
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil {
		return notes
	}
	for name, value := range map[string]any{noteStop: c.Lifecycle.PreStop, notePorts: c.Ports} {
		if text, err := json.Marshal(value); err == nil { // what came as JSON is JSON
			notes[name] = string(text)
		}
	}
	return notes
}

// hook is what a container was to be told before its end, if its annotations say so.
func hook(notes map[string]string) (*corev1.LifecycleHandler, []corev1.ContainerPort) {
	text, ok := notes[noteStop]
	if !ok {
		return nil, nil
	}
	h, ports := &corev1.LifecycleHandler{}, []corev1.ContainerPort(nil)
	if json.Unmarshal([]byte(text), h) != nil {
		return nil, nil
	}
	if json.Unmarshal([]byte(notes[notePorts]), &ports) != nil {
		ports = nil
	}
	return h, ports
}
