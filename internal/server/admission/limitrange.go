package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/registry"
)

const limitAnnotation = "kubernetes.io/limit-ranger"

// limitRanger gives containers the limits that their namespace has for those that name none, and refuses what is beyond
// them.
func (cl *cluster) limitRanger() registry.Admission {
	return registry.Admission{
		Name: "LimitRanger",
		Mutate: func(ctx context.Context, c *registry.Change) error {
			if !creates(c, "pods") {
				return nil
			}
			all, err := cl.limits.list(ctx, c.Namespace)
			for _, l := range all {
				applyDefaults(c.Object.(*corev1.Pod), l)
			}
			return err
		},
		Validate: func(ctx context.Context, c *registry.Change) error {
			if !limited(c) {
				return nil
			}
			all, err := cl.limits.list(ctx, c.Namespace)
			if err != nil {
				return err
			}
			for _, l := range all {
				if errs := beyond(c, l); len(errs) > 0 {
					return forbidden(c, "%w", utilerrors.NewAggregate(errs))
				}
			}
			return nil
		},
	}
}

// limited tells whether a change may take a pod or a claim beyond a limit.
func limited(c *registry.Change) bool {
	if c.Object == nil || c.Object.GetDeletionTimestamp() != nil && c.Operation == registry.Update {
		return false
	}
	switch {
	case is(c, "", "pods"):
		return c.View == "" && c.Operation == registry.Create || c.View == "resize" && c.Operation == registry.Update
	case is(c, "", "persistentvolumeclaims"):
		return c.View == "" && (c.Operation == registry.Create || c.Operation == registry.Update)
	}
	return false
}

func applyDefaults(pod *corev1.Pod, l *corev1.LimitRange) {
	limits, requests := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range l.Spec.Limits {
		if item := &l.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			maps.Copy(limits, item.Default)
			maps.Copy(requests, item.DefaultRequest)
		}
	}
	var notes []string
	for i := range pod.Spec.Containers {
		notes = append(notes, completeContainer(&pod.Spec.Containers[i], limits, requests, "container")...)
	}
	for i := range pod.Spec.InitContainers {
		notes = append(notes, completeContainer(&pod.Spec.InitContainers[i], limits, requests, "init container")...)
	}
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[limitAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

func completeContainer(c *corev1.Container, limits, requests corev1.ResourceList, what string) []string {
	var notes []string
	note := func(list *corev1.ResourceList, from corev1.ResourceList, word string) {
		if added := addMissing(list, from); len(added) > 0 {
			notes = append(notes, fmt.Sprintf("%s %s for %s %s", strings.Join(added, ", "), word, what, c.Name))
		}
	}
	note(&c.Resources.Requests, requests, "request")
	note(&c.Resources.Limits, limits, "limit")
	return notes
}

func addMissing(list *corev1.ResourceList, from corev1.ResourceList) []string {
	var added []string
	for name, q := range from {
		if _, there := (*list)[name]; there {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = q.DeepCopy()
		added = append(added, string(name))
	}
	slices.Sort(added)
	return added
}

// beyond says in what the object is outside the limits.
func beyond(c *registry.Change, l *corev1.LimitRange) []error {
	var errs []error
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		switch o := c.Object.(type) {
		case *corev1.Pod:
			errs = append(errs, podBeyond(o, item)...)
		case *corev1.PersistentVolumeClaim:
			if item.Type == corev1.LimitTypePersistentVolumeClaim {
				b := bounds{kind: string(item.Type), requests: o.Spec.Resources.Requests}
				errs = append(errs, b.each(item.Min, b.belowMin)...)
				errs = append(errs, b.each(item.Max, b.requestAboveMax)...)
			}
		}
	}
	return errs
}

func podBeyond(pod *corev1.Pod, item *corev1.LimitRangeItem) []error {
	var errs []error
	check := func(requests, limits corev1.ResourceList) {
		b := bounds{kind: string(item.Type), requests: requests, limits: limits}
		errs = append(errs, b.each(item.Min, b.belowMin)...)
		errs = append(errs, b.each(item.Max, b.aboveMax)...)
		errs = append(errs, b.each(item.MaxLimitRequestRatio, b.aboveRatio)...)
	}
	switch item.Type {
	case corev1.LimitTypeContainer:
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				check(containers[i].Resources.Requests, containers[i].Resources.Limits)
			}
		}
	case corev1.LimitTypePod:
		check(demand.Asked(&pod.Spec))
	}
	return errs
}
