package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/loop"
)

// oldNames are labels that must say what others say, for pods that select nodes by their old names.
var oldNames = map[string]string{
	corev1.LabelOSStable:   "beta.kubernetes.io/os",
	corev1.LabelArchStable: "beta.kubernetes.io/arch",
}

// label gives a node's labels their old names too.
func (n *controller) label(ctx context.Context, key loop.Key, node *corev1.Node) error {
	missing := map[string]string{}
	for name, old := range oldNames {
		if value, known := node.Labels[name]; known && node.Labels[old] != value {
			missing[old] = value
		}
	}
	if len(missing) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "labels": missing}})
	if err != nil {
		return err
	}
	written, err := n.kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("label node %s: %w", node.Name, err)
	}
	loop.Wrote(ctx, n.nodes, written.ResourceVersion)
	return loop.ErrBehind
}
