package admission

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/server/registry"
)

// namespaceAutoProvision makes the namespace of a new object if there is none.
func (cl *cluster) namespaceAutoProvision() registry.Admission {
	return mutating("NamespaceAutoProvision", func(ctx context.Context, c *registry.Change) error {
		if c.Operation != registry.Create || c.DryRun || !c.Kind.Namespaced || c.Namespace == "" {
			return nil
		}
		storage, _, err := cl.namespaces.find(ctx, "", c.Namespace)
		if !apierrors.IsNotFound(err) || storage == nil {
			return err
		}
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}
		storage.Kind().Default(o)
		if _, err := storage.Create(ctx, "", o, registry.WriteOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return forbidden(c, "%w", err)
		}
		return nil
	})
}

// namespaceExists refuses everything in a namespace that does not exist.
func (cl *cluster) namespaceExists() registry.Admission {
	return validating("NamespaceExists", func(ctx context.Context, c *registry.Change) error {
		if !c.Kind.Namespaced || c.Namespace == "" || isReview(c) {
			return nil
		}
		if _, _, err := cl.namespaces.find(ctx, "", c.Namespace); err != nil {
			if apierrors.IsNotFound(err) {
				return err
			}
			return apierrors.NewInternalError(err)
		}
		return nil
	})
}

// annotations by which a namespace says where its pods may go.
const (
	nodeSelectorAnnotation = "scheduler.alpha.kubernetes.io/node-selector"
	tolerationsAnnotation  = "scheduler.alpha.kubernetes.io/defaultTolerations"
	allowedAnnotation      = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

// podNodeSelector gives the pods of a namespace the nodes that it has.
func (cl *cluster) podNodeSelector(all Configuration) (registry.Admission, error) {
	var config struct {
		Selectors map[string]string `json:"podNodeSelectorPluginConfig"`
	}
	if err := all.of("PodNodeSelector", &config); err != nil {
		return registry.Admission{}, err
	}
	concerned := func(c *registry.Change) *corev1.Pod {
		if c.Operation != registry.Create {
			return nil
		}
		return podOf(c)
	}
	clash := func(c *registry.Change, pod *corev1.Pod, why string) error {
		return apierrors.NewForbidden(c.Kind.GroupResource(), pod.Name, fmt.Errorf("pod node label selector %s", why))
	}
	const conflict = "conflicts with its namespace node label selector"
	return registry.Admission{Name: "PodNodeSelector",
		Mutate: func(ctx context.Context, c *registry.Change) error {
			pod := concerned(c)
			if pod == nil {
				return nil
			}
			selector, err := cl.selectorOf(ctx, c.Namespace, config.Selectors)
			if err != nil {
				return err
			}
			if labels.Conflicts(selector, labels.Set(pod.Spec.NodeSelector)) {
				return clash(c, pod, conflict)
			}
			pod.Spec.NodeSelector = labels.Merge(selector, pod.Spec.NodeSelector)
			return nil
		},
		Validate: func(ctx context.Context, c *registry.Change) error {
			pod := concerned(c)
			if pod == nil {
				return nil
			}
			selector, err := cl.selectorOf(ctx, c.Namespace, config.Selectors)
			if err != nil {
				return err
			}
			if labels.Conflicts(selector, labels.Set(pod.Spec.NodeSelector)) {
				return clash(c, pod, conflict)
			}
			allowed, err := labels.ConvertSelectorToLabelsMap(config.Selectors[c.Namespace])
			if err != nil {
				return err
			}
			for k, v := range pod.Spec.NodeSelector {
				if got, ok := allowed[k]; len(allowed) > 0 && (!ok || got != v) {
					return clash(c, pod, "labels conflict with its namespace whitelist")
				}
			}
			return nil
		},
	}, nil
}

// selectorOf is the selector that a namespace has for its pods, or that of the cluster.
func (cl *cluster) selectorOf(ctx context.Context, namespace string, configured map[string]string) (labels.Set, error) {
	ns, err := cl.namespaces.get(ctx, "", namespace)
	if err != nil {
		return nil, err
	}
	text, said := ns.Annotations[nodeSelectorAnnotation]
	if !said {
		text = configured["clusterDefaultNodeSelector"]
	}
	return labels.ConvertSelectorToLabelsMap(text)
}

// tolerations are those that a namespace says of its pods; nil if it says nothing.
func tolerations(ns *corev1.Namespace, annotation string) ([]corev1.Toleration, error) {
	text, said := ns.Annotations[annotation]
	if !said {
		return nil, nil
	}
	all := []corev1.Toleration{}
	if text == "" {
		return all, nil
	}
	return all, json.Unmarshal([]byte(text), &all)
}
