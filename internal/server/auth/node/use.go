package node

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/store"
)

// useOf collects the names of all that a pod uses. A mirror pod uses nothing: a node makes it by itself, and would give
// itself what it names.
func useOf(p *corev1.Pod, rev store.Revision) *podUse {
	u := &podUse{revision: rev, names: map[thing][]string{}}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		u.pod(p)
	}
	return u
}

// Secrets are the names of all secrets that a pod names itself, whatever for.
func Secrets(p *corev1.Pod) []string {
	u := &podUse{names: map[thing][]string{}}
	u.pod(p)
	return u.names[secret]
}

func (u *podUse) pod(p *corev1.Pod) {
	u.add(account, p.Spec.ServiceAccountName)
	for _, r := range p.Spec.ImagePullSecrets {
		u.add(secret, r.Name)
	}
	for _, c := range p.Spec.InitContainers {
		u.environment(c.EnvFrom, c.Env)
	}
	for _, c := range p.Spec.Containers {
		u.environment(c.EnvFrom, c.Env)
	}
	for _, c := range p.Spec.EphemeralContainers {
		u.environment(c.EnvFrom, c.Env)
	}
	for i := range p.Spec.Volumes {
		u.volume(p, &p.Spec.Volumes[i])
	}
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			u.add(resourceClaim, *s.ResourceClaimName)
		}
	}
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			u.add(resourceClaim, *c.ResourceClaimName)
		}
	}
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		u.add(resourceClaim, s.ResourceClaimName)
	}
}

func (u *podUse) add(of thing, name string) {
	if name != "" {
		u.names[of] = append(u.names[of], name)
	}
}

func (u *podUse) environment(from []corev1.EnvFromSource, env []corev1.EnvVar) {
	for _, f := range from {
		if f.SecretRef != nil {
			u.add(secret, f.SecretRef.Name)
		}
		if f.ConfigMapRef != nil {
			u.add(configMap, f.ConfigMapRef.Name)
		}
	}
	for _, e := range env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			u.add(secret, r.Name)
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			u.add(configMap, r.Name)
		}
	}
}

func (u *podUse) volume(p *corev1.Pod, v *corev1.Volume) {
	switch {
	case v.Secret != nil:
		u.add(secret, v.Secret.SecretName)
	case v.ConfigMap != nil:
		u.add(configMap, v.ConfigMap.Name)
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		u.add(claim, demand.Claim(p.Name, v))
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				u.add(secret, s.Secret.Name)
			}
			if s.ConfigMap != nil {
				u.add(configMap, s.ConfigMap.Name)
			}
		}
	case v.AzureFile != nil:
		u.add(secret, v.AzureFile.SecretName)
	default:
		u.add(secret, local(localSecret(&v.VolumeSource)))
	}
}

func local(r *corev1.LocalObjectReference) string {
	if r == nil {
		return ""
	}
	return r.Name
}

// localSecret is the secret that a volume of a storage system names.
func localSecret(v *corev1.VolumeSource) *corev1.LocalObjectReference {
	switch {
	case v.CephFS != nil:
		return v.CephFS.SecretRef
	case v.Cinder != nil:
		return v.Cinder.SecretRef
	case v.FlexVolume != nil:
		return v.FlexVolume.SecretRef
	case v.RBD != nil:
		return v.RBD.SecretRef
	case v.ScaleIO != nil:
		return v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		return v.ISCSI.SecretRef
	case v.StorageOS != nil:
		return v.StorageOS.SecretRef
	case v.CSI != nil:
		return v.CSI.NodePublishSecretRef
	}
	return nil
}

// volumeSecrets are the secrets that a kubelet needs for a volume; those that only controllers need are left out.
func volumeSecrets(v *corev1.PersistentVolume) (all []corev1.SecretReference) {
	s := &v.Spec.PersistentVolumeSource
	if f := s.AzureFile; f != nil {
		namespace := v.Spec.ClaimRef.Namespace
		if f.SecretNamespace != nil {
			namespace = cmp.Or(*f.SecretNamespace, namespace)
		}
		return []corev1.SecretReference{{Namespace: namespace, Name: f.SecretName}}
	}
	for _, r := range namedSecrets(s) {
		if r != nil {
			all = append(all, corev1.SecretReference{Namespace: cmp.Or(r.Namespace, v.Spec.ClaimRef.Namespace), Name: r.Name})
		}
	}
	return all
}

func namedSecrets(s *corev1.PersistentVolumeSource) []*corev1.SecretReference {
	switch {
	case s.CephFS != nil:
		return []*corev1.SecretReference{s.CephFS.SecretRef}
	case s.Cinder != nil:
		return []*corev1.SecretReference{s.Cinder.SecretRef}
	case s.FlexVolume != nil:
		return []*corev1.SecretReference{s.FlexVolume.SecretRef}
	case s.RBD != nil:
		return []*corev1.SecretReference{s.RBD.SecretRef}
	case s.ScaleIO != nil:
		return []*corev1.SecretReference{s.ScaleIO.SecretRef}
	case s.ISCSI != nil:
		return []*corev1.SecretReference{s.ISCSI.SecretRef}
	case s.StorageOS != nil && s.StorageOS.SecretRef != nil:
		return []*corev1.SecretReference{{Namespace: s.StorageOS.SecretRef.Namespace, Name: s.StorageOS.SecretRef.Name}}
	case s.CSI != nil:
		return []*corev1.SecretReference{s.CSI.NodePublishSecretRef, s.CSI.NodeStageSecretRef, s.CSI.NodeExpandSecretRef}
	}
	return nil
}
