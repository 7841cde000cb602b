package admission

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/admission/api"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// security holds pods against the Pod Security Standards that their namespaces ask for.
type security struct {
	*cluster
	evaluator  policy.Evaluator
	standard   api.Policy
	exemptions podsecurity.PodSecurityExemptions
}

// podSecurity is the plugin PodSecurity. Kubernetes' published rules say what each level allows.
func (cl *cluster) podSecurity(config *podsecurity.PodSecurityConfiguration) (registry.Admission, error) {
	standard, err := podsecurity.ToPolicy(config.Defaults)
	if err != nil {
		return registry.Admission{}, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return registry.Admission{}, err
	}
	s := &security{cluster: cl, evaluator: evaluator, standard: standard, exemptions: config.Exemptions}
	return validating("PodSecurity", s.validate), nil
}

// untouched are the subresources of pods through which what a pod may do does not change.
var untouched = []string{"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}

func (s *security) validate(ctx context.Context, c *registry.Change) error {
	if c.Operation != registry.Create && c.Operation != registry.Update || c.Object == nil {
		return nil
	}
	switch {
	case is(c, "", "namespaces") && c.View == "":
		return s.validateNamespace(ctx, c)
	case is(c, "", "pods") && !slices.Contains(untouched, c.View):
		pod, ok := c.Object.(*corev1.Pod)
		if old, changed := c.Old.(*corev1.Pod); !ok || changed && !otherImages(pod, old) {
			return nil
		}
		return s.judge(ctx, c, &pod.ObjectMeta, &pod.Spec, true)
	case c.View == "":
		if t := templateOf(c.Object); t != nil {
			return s.judge(ctx, c, &t.ObjectMeta, &t.Spec, false)
		}
	}
	return nil
}

// templateOf is what a workload makes its pods of.
func templateOf(o resource.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *corev1.PodTemplate:
		return &o.Template
	case *corev1.ReplicationController:
		return o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// otherImages tells whether an update can make a pod another one: all else that an update may change has no bearing on
// what it may do.
func otherImages(pod, old *corev1.Pod) bool {
	same := func(a, b corev1.Container) bool { return a.Image == b.Image }
	if !slices.EqualFunc(pod.Spec.Containers, old.Spec.Containers, same) || !slices.EqualFunc(pod.Spec.InitContainers, old.Spec.InitContainers, same) {
		return true
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		return !slices.ContainsFunc(old.Spec.EphemeralContainers, func(o corev1.EphemeralContainer) bool { return o.Name == c.Name && o.Image == c.Image })
	})
}

// judge holds a pod, or the template of pods, against what the namespace asks for. Only pods are refused.
func (s *security) judge(ctx context.Context, c *registry.Change, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	if reason := s.exempt(ctx, c.Namespace, spec); reason != "" {
		annotate(c, api.ExemptionReasonAnnotationKey, reason)
		return nil
	}
	ns, err := s.namespaces.get(ctx, "", c.Namespace)
	if err != nil {
		annotate(c, "error", fmt.Sprintf("failed to lookup namespace %q: %v", c.Namespace, err))
		if enforce {
			return apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q", c.Namespace))
		}
		return nil
	}
	asked, wrong := api.PolicyToEvaluate(ns.Labels, s.standard)
	switch {
	case len(wrong) > 0:
		annotate(c, "error", fmt.Sprintf("Failed to parse policy: %v", wrong.ToAggregate()))
	case enforce && asked.FullyPrivileged():
		annotate(c, api.EnforcedPolicyAnnotationKey, api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}.String())
		return nil
	case !enforce && asked.Warn.Level == api.LevelPrivileged && asked.Audit.Level == api.LevelPrivileged:
		return nil
	}
	return s.apply(c, asked, meta, spec, enforce)
}

// apply refuses, notes and warns, each by its own level.
func (s *security) apply(c *registry.Change, asked api.Policy, meta *metav1.ObjectMeta, spec *corev1.PodSpec, enforce bool) error {
	known := map[api.LevelVersion]policy.AggregateCheckResult{}
	evaluate := func(at api.LevelVersion) policy.AggregateCheckResult {
		if _, done := known[at]; !done {
			known[at] = policy.AggregateCheckResults(s.evaluator.EvaluatePod(at, meta, spec))
		}
		return known[at]
	}
	var refusal error
	if enforce {
		annotate(c, api.EnforcedPolicyAnnotationKey, asked.Enforce.String())
		if r := evaluate(asked.Enforce); !r.Allowed {
			refusal = apierrors.NewForbidden(c.Kind.GroupResource(), c.Name, fmt.Errorf("violates PodSecurity %q: %s", asked.Enforce.String(), r.ForbiddenDetail()))
		}
	}
	if r := evaluate(asked.Audit); !r.Allowed {
		annotate(c, api.AuditViolationsAnnotationKey, fmt.Sprintf("would violate PodSecurity %q: %s", asked.Audit.String(), r.ForbiddenDetail()))
	}
	if refusal != nil {
		return refusal
	}
	if r := evaluate(asked.Warn); !r.Allowed {
		warn(c, fmt.Sprintf("would violate PodSecurity %q: %s", asked.Warn.String(), r.ForbiddenDetail()))
	}
	return nil
}

// exempt is why nothing is asked of a pod, if that is so.
func (s *security) exempt(ctx context.Context, namespace string, spec *corev1.PodSpec) string {
	switch class := spec.RuntimeClassName; {
	case slices.Contains(s.exemptions.Namespaces, namespace):
		return "namespace"
	case slices.Contains(s.exemptions.Usernames, resource.CallFrom(ctx).User):
		return "user"
	case class != nil && *class != "" && slices.Contains(s.exemptions.RuntimeClasses, *class):
		return "runtimeClass"
	}
	return ""
}

func annotate(c *registry.Change, key, value string) {
	if c.Annotate != nil {
		c.Annotate(api.AuditAnnotationPrefix+key, value)
	}
}

func warn(c *registry.Change, text string) {
	if c.Warn != nil {
		c.Warn(text)
	}
}
