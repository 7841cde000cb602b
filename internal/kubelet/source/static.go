package source

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The annotations of static pods.
const (
	sourceAnnotation = "kubernetes.io/config.source"
	hashAnnotation   = "kubernetes.io/config.hash"
	seenAnnotation   = "kubernetes.io/config.seen"
)

// errNothing is returned for an empty manifest. It may be one that is just being written, so its pods are kept: to stop
// them, the file must be removed.
var errNothing = errors.New("no pod in the manifest")

// decode reads the pods of a manifest: one or several YAML or JSON documents, each a Pod or a PodList.
func decode(text []byte) ([]*corev1.Pod, error) {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var all []*corev1.Pod
	for {
		var raw json.RawMessage
		err := reader.Decode(&raw)
		if errors.Is(err, io.EOF) && len(all) > 0 {
			return all, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, errNothing
		}
		if err != nil {
			return nil, err
		}
		if len(raw) == 0 || string(raw) == "null" {
			continue
		}
		pods, err := document(raw)
		if err != nil {
			return nil, err
		}
		all = append(all, pods...)
	}
}

func document(raw []byte) ([]*corev1.Pod, error) {
	var kind struct{ APIVersion, Kind string }
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, err
	}
	if kind.APIVersion != "v1" {
		return nil, fmt.Errorf("apiVersion %q is not v1", kind.APIVersion)
	}
	switch kind.Kind {
	case "Pod":
		var pod corev1.Pod
		if err := json.Unmarshal(raw, &pod); err != nil {
			return nil, err
		}
		return []*corev1.Pod{&pod}, nil
	case "PodList", "List":
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		var all []*corev1.Pod
		for _, item := range list.Items {
			var pod corev1.Pod
			if err := json.Unmarshal(item, &pod); err != nil {
				return nil, err
			}
			all = append(all, &pod)
		}
		return all, nil
	}
	return nil, fmt.Errorf("kind %q is not a Pod", kind.Kind)
}

// adopt sets the name, UID and defaults of a manifest's pod for this node.
func adopt(pod *corev1.Pod, source Name, origin, node string, now time.Time) error {
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	if err := check(pod); err != nil {
		return err
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return err
	}
	sum := md5.Sum(fmt.Appendf(nil, "host:%s\n%s:%s\n%s", node, source, origin, text)) // MD5 only makes an identifier here
	hash := hex.EncodeToString(sum[:])
	if pod.UID == "" {
		pod.UID = types.UID(hash)
	}
	pod.Name += "-" + node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[sourceAnnotation] = string(source)
	pod.Annotations[hashAnnotation] = hash
	pod.Annotations[seenAnnotation] = now.UTC().Format(time.RFC3339Nano)
	pod.Spec.NodeName = node
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	setDefaults(pod)
	return nil
}

// check rejects a pod that could not run. That includes what needs an API server.
func check(pod *corev1.Pod) error {
	if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 {
		return fmt.Errorf("metadata.name %q: %s", pod.Name, problems[0])
	}
	if problems := validation.IsDNS1123Label(pod.Namespace); len(problems) > 0 {
		return fmt.Errorf("metadata.namespace %q: %s", pod.Namespace, problems[0])
	}
	if len(pod.Spec.Containers) == 0 {
		return errors.New("spec.containers: Required value")
	}
	names := map[string]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			switch problems := validation.IsDNS1123Label(c.Name); {
			case len(problems) > 0:
				return fmt.Errorf("container name %q: %s", c.Name, problems[0])
			case names[c.Name]:
				return fmt.Errorf("container name %q: Duplicate value", c.Name)
			case c.Image == "":
				return fmt.Errorf("container %q: image: Required value", c.Name)
			}
			names[c.Name] = true
		}
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		return errors.New("static pods cannot have ephemeral containers")
	}
	if pod.Spec.ServiceAccountName != "" {
		return errors.New("static pods cannot have a service account")
	}
	return nil
}
