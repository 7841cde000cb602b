package admission

import (
	"context"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/registry"
)

// enforceMountable is the annotation by which an account limits its pods to the secrets that it lists.
const enforceMountable = "kubernetes.io/enforce-mountable-secrets"

// checkAccount refuses a new pod without an account that exists, and one that uses secrets which its account does not
// list, if the account wants that. It runs after webhooks and policies, which may have changed the pod. Containers that
// are added to a running pod are checked in the same way.
func (cl *cluster) checkAccount(ctx context.Context, c *registry.Change) error {
	added := c.Operation == registry.Update && c.View == "ephemeralcontainers" && is(c, "", "pods")
	if !added && !creates(c, "pods") || c.Object == nil {
		return nil
	}
	pod := c.Object.(*corev1.Pod)
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror && !added {
		return checkMirror(c, pod)
	}
	name := pod.Spec.ServiceAccountName
	if name == "" {
		return forbidden(c, "no service account specified for pod %s/%s", c.Namespace, pod.Name)
	}
	account, err := cl.account(ctx, c.Namespace, name)
	if err != nil {
		return forbidden(c, "error looking up service account %s/%s: %w", c.Namespace, name, err)
	}
	if limits, _ := strconv.ParseBool(account.Annotations[enforceMountable]); !limits {
		return nil
	}
	m := mountable{c, account}
	if added {
		for _, e := range pod.Spec.EphemeralContainers {
			if err := m.environment("ephemeral container", e.Name, e.Env, e.EnvFrom); err != nil {
				return err
			}
		}
		return nil
	}
	return m.pod(&pod.Spec)
}

// mountable compares the secrets that a pod uses with those that its account lists. The words are Kubernetes'.
type mountable struct {
	c       *registry.Change
	account *corev1.ServiceAccount
}

func (m mountable) pod(spec *corev1.PodSpec) error {
	for _, v := range spec.Volumes {
		if v.Secret != nil && !m.lists(v.Secret.SecretName) {
			return m.refuse("volume with", v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.Secret != nil && !m.lists(s.Secret.Name) {
				return m.refuse("projected volume with", s.Secret.Name)
			}
		}
	}
	for _, of := range []struct {
		kind       string
		containers []corev1.Container
	}{{"init container", spec.InitContainers}, {"container", spec.Containers}} {
		for _, c := range of.containers {
			if err := m.environment(of.kind, c.Name, c.Env, c.EnvFrom); err != nil {
				return err
			}
		}
	}
	for i, r := range spec.ImagePullSecrets {
		if !slices.Contains(m.account.ImagePullSecrets, r) {
			const text = "imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret"
			return forbidden(m.c, text, i, r.Name, m.account.Name)
		}
	}
	return nil
}

func (m mountable) environment(kind, name string, env []corev1.EnvVar, from []corev1.EnvFromSource) error {
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && !m.lists(e.ValueFrom.SecretKeyRef.Name) {
			return m.refuse(kind+" "+name+" with envVar "+e.Name+" referencing", e.ValueFrom.SecretKeyRef.Name)
		}
	}
	for _, f := range from {
		if f.SecretRef != nil && !m.lists(f.SecretRef.Name) {
			return m.refuse(kind+" "+name+" with envFrom referencing", f.SecretRef.Name)
		}
	}
	return nil
}

func (m mountable) lists(secret string) bool {
	return slices.ContainsFunc(m.account.Secrets, func(r corev1.ObjectReference) bool { return r.Name == secret })
}

func (m mountable) refuse(what, secret string) error {
	const text = "%s secret.secretName=%q is not allowed because service account %s does not reference that secret"
	return forbidden(m.c, text, what, secret, m.account.Name)
}
