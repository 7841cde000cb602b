package kubelet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/devices"
)

func claiming(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
}

func TestAPodWhoseDevicesAreNotReadyWaits(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		w.create(podOf("web", claiming("none")))
		if got := w.phase("web"); got != "Pending " {
			t.Errorf("the pod is %q", got)
		}
		events, err := w.kube.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "FailedPrepareDynamicResources" && strings.HasPrefix(e.Message, "Failed to prepare dynamic resources: ")
		}) {
			t.Errorf("no event says why: %v", events.Items)
		}
	})
}

func TestAContainerGetsItsDevicesAndAPodStaysUntilTheyAreUnprepared(t *testing.T) {
	onNode(t, nil, func(t *testing.T, w *world) {
		// What an earlier kubelet left.
		type tree = map[string]any
		state, err := json.Marshal(tree{"claims": []tree{{
			"claimUID": "c", "claimName": "claim", "namespace": "default", "podUIDs": []string{"uid-web"},
			"driverState": tree{"gpu.example.com": tree{"devices": []tree{{"poolName": "n", "deviceName": "d", "cdiDeviceIDs": []string{"gpu.example.com/gpu=0"}}}}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "dra_state"), state, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := devices.New(devices.Options{Kube: w.kube, Node: "node", Root: root})
		if err != nil {
			t.Fatal(err)
		}
		w.kubelet.furnish.Devices = d
		w.create(podOf("web", claiming("claim")))
		if got := w.runtime.devicesOf("main"); !slices.Equal(got, []string{"gpu.example.com/gpu=0"}) {
			t.Errorf("the container got %q", got)
		}
		if err := w.kube.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		if !w.kubelet.crew.Has("uid-web") {
			t.Error("the kubelet has forgotten a pod whose devices nobody has unprepared")
		}
	})
}
