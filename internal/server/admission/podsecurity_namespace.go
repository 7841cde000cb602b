package admission

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/millrace/millrace/internal/server/registry"
)

const (
	// mostPods and podsTime bound how many pods are looked at when a namespace asks for more than before.
	mostPods = 3000
	podsTime = time.Second
)

// validateNamespace wants labels that can be understood, and warns of pods that do not meet what a namespace newly asks
// for.
func (s *security) validateNamespace(ctx context.Context, c *registry.Change) error {
	ns := c.Object.(*corev1.Namespace)
	now, wrong := api.PolicyToEvaluate(ns.Labels, s.standard)
	exempt := slices.Contains(s.exemptions.Namespaces, ns.Name)
	old, update := c.Old.(*corev1.Namespace)
	if !update {
		if len(wrong) > 0 {
			return apierrors.NewInvalid(c.Kind.GroupVersionKind().GroupKind(), c.Name, wrong)
		}
		if exempt {
			s.warnExempt(c, ns, now)
		}
		return nil
	}
	before, wasWrong := api.PolicyToEvaluate(old.Labels, s.standard)
	if len(wrong) > 0 && (len(wasWrong) == 0 || !reflect.DeepEqual(wrong, wasWrong)) {
		return apierrors.NewInvalid(c.Kind.GroupVersionKind().GroupKind(), c.Name, wrong)
	}
	switch {
	case now.Enforce == before.Enforce, now.Enforce.Level == api.LevelPrivileged,
		now.Enforce.Version == before.Enforce.Version && api.CompareLevels(now.Enforce.Level, before.Enforce.Level) < 1:
		return nil
	case exempt:
		s.warnExempt(c, ns, now)
		return nil
	}
	for _, text := range s.violations(ctx, ns.Name, now.Enforce) {
		warn(c, text)
	}
	return nil
}

// warnExempt says that labels have no effect.
func (s *security) warnExempt(c *registry.Change, ns *corev1.Namespace, asked api.Policy) {
	if asked.FullyPrivileged() || asked.Equivalent(&s.standard) {
		return
	}
	var parts []string
	for _, mode := range []struct {
		name, level, version string
		at                   api.LevelVersion
	}{
		{"enforce", api.EnforceLevelLabel, api.EnforceVersionLabel, asked.Enforce},
		{"audit", api.AuditLevelLabel, api.AuditVersionLabel, asked.Audit},
		{"warn", api.WarnLevelLabel, api.WarnVersionLabel, asked.Warn},
	} {
		_, level := ns.Labels[mode.level]
		_, version := ns.Labels[mode.version]
		if mode.at.Level != api.LevelPrivileged && (level || version) {
			parts = append(parts, mode.name+"="+mode.at.String())
		}
	}
	warn(c, fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", ns.Name, strings.Join(parts, ", ")))
}

// violators are the pods that break the rules in the same way.
type violators struct {
	first string
	count int
}

// violations are what the pods of a namespace do that a level does not allow.
func (s *security) violations(ctx context.Context, namespace string, at api.LevelVersion) []string {
	limit := podsTime
	if by, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(by)/2)
	}
	by := time.Now().Add(limit)
	pods, err := s.pods.list(ctx, namespace)
	if err != nil {
		return []string{"failed to list pods while checking new PodSecurity enforce level"}
	}
	pods = s.prioritized(pods)
	all := len(pods)
	pods = pods[:min(all, mostPods)]
	found, looked := map[string]violators{}, len(pods)
	for i, pod := range pods {
		if r := policy.AggregateCheckResults(s.evaluator.EvaluatePod(at, &pod.ObjectMeta, &pod.Spec)); !r.Allowed {
			v := found[r.ForbiddenReason()]
			if v.count == 0 || pod.Name < v.first {
				v.first = pod.Name
			}
			v.count++
			found[r.ForbiddenReason()] = v
		}
		if time.Now().After(by) || ctx.Err() != nil {
			looked = i + 1
			break
		}
	}
	var out []string
	if looked < all {
		out = append(out, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", looked, all))
	}
	if len(found) > 0 {
		out = append(out, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, at.String()))
	}
	var lines []string
	for reason, v := range found {
		lines = append(lines, v.first+v.others()+": "+reason)
	}
	slices.Sort(lines)
	return append(out, lines...)
}

func (v violators) others() string {
	switch v.count {
	case 1:
		return ""
	case 2:
		return " (and 1 other pod)"
	}
	return fmt.Sprintf(" (and %d other pods)", v.count-1)
}

// prioritized has one pod of each controller before the others, which are mostly like it.
func (s *security) prioritized(pods []*corev1.Pod) []*corev1.Pod {
	var first, others []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		if class := pod.Spec.RuntimeClassName; class != nil && *class != "" && slices.Contains(s.exemptions.RuntimeClasses, *class) {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner != nil && seen[owner.UID] {
			others = append(others, pod)
			continue
		}
		if owner != nil {
			seen[owner.UID] = true
		}
		first = append(first, pod)
	}
	return append(first, others...)
}
