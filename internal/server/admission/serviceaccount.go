package admission

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/millrace/millrace/internal/server/auth/node"
	"github.com/millrace/millrace/internal/server/registry"
)

const (
	defaultAccount = "default"
	accessVolume   = "kube-api-access"
	accessPath     = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is an hour, and some seconds by which Kubernetes recognizes tokens that it asked for itself.
	tokenSeconds = int64(60*60 + 7)
	filesMode    = int32(0o644)
	rootCA       = "kube-root-ca.crt"
)

// serviceAccount gives a new pod an account that exists, and the token and certificates by which it reaches the API.
// What webhooks and policies have made of the pod is checked afterwards.
func (cl *cluster) serviceAccount() registry.Admission {
	return registry.Admission{Name: "ServiceAccount", Validate: cl.checkAccount, Mutate: func(ctx context.Context, c *registry.Change) error {
		if !creates(c, "pods") {
			return nil
		}
		pod := c.Object.(*corev1.Pod)
		if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
			return checkMirror(c, pod)
		}
		spec := &pod.Spec
		if spec.ServiceAccountName == "" {
			spec.ServiceAccountName = defaultAccount
		}
		spec.DeprecatedServiceAccount = spec.ServiceAccountName
		account, err := cl.account(ctx, c.Namespace, spec.ServiceAccountName)
		if err != nil {
			return forbidden(c, "error looking up service account %s/%s: %w", c.Namespace, spec.ServiceAccountName, err)
		}
		if wantsToken(account, spec) {
			mountToken(spec)
		}
		if len(spec.ImagePullSecrets) == 0 {
			spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
		}
		return nil
	}}
}

// A namespace gets its default account right after it was created: who is as fast as that may wait for it.
const (
	looksForDefault = 10
	betweenLooks    = 50 * time.Millisecond
)

func (cl *cluster) account(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	looks := 1
	if name == defaultAccount {
		looks = looksForDefault
	}
	for {
		account, err := cl.accounts.get(ctx, namespace, name)
		if !apierrors.IsNotFound(err) {
			return account, err
		}
		if looks--; looks == 0 {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(betweenLooks):
		}
	}
}

// checkMirror refuses pods that their node runs anyway, and that want what it could not give them.
func checkMirror(c *registry.Change, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return forbidden(c, "a mirror pod may not reference service accounts")
	}
	if len(node.Secrets(pod)) > 0 {
		return forbidden(c, "a mirror pod may not reference secrets")
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				return forbidden(c, "a mirror pod may not use ServiceAccountToken volume projections")
			}
		}
	}
	return nil
}

func wantsToken(account *corev1.ServiceAccount, spec *corev1.PodSpec) bool {
	switch {
	case spec.AutomountServiceAccountToken != nil:
		return *spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mountToken mounts the volume with the token into all containers that have nothing at its place.
func mountToken(spec *corev1.PodSpec) {
	name, there := "", false
	for _, v := range spec.Volumes {
		if strings.HasPrefix(v.Name, accessVolume+"-") {
			name, there = v.Name, true
			break
		}
	}
	if !there {
		name = accessVolume + "-" + rand.String(5)
	}
	mounted := false
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			mounts := &containers[i].VolumeMounts
			if !slices.ContainsFunc(*mounts, func(m corev1.VolumeMount) bool { return m.MountPath == accessPath }) {
				*mounts = append(*mounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: accessPath})
				mounted = true
			}
		}
	}
	if mounted && !there {
		spec.Volumes = append(spec.Volumes, accessTo(name))
	}
}

func accessTo(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(filesMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(tokenSeconds)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCA},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}}}
}
