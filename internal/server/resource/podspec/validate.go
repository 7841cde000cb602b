package podspec

import (
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options says where a spec comes from and what the server allows.
type Options struct {
	// AllowPrivileged allows privileged containers.
	AllowPrivileged bool
	// AllVolumes replace the template's own: a stateful set adds the volumes of its claims.
	AllVolumes []corev1.Volume
}

// Validate validates a pod's spec, including the rules that apply to pods but not to templates.
func Validate(p *corev1.Pod, opt Options) field.ErrorList {
	x := examiner{opt: opt, spec: &p.Spec, meta: &p.ObjectMeta, pod: true}
	x.annotations(x.from(annotationsPath), p.Annotations)
	root := x.from(specPath)
	x.all(root)
	x.onlyForPods(root)
	return x.errs
}

// ValidateTemplate validates a pod template.
func ValidateTemplate(t *corev1.PodTemplateSpec, path *field.Path, opt Options) field.ErrorList {
	x := examiner{opt: opt, spec: &t.Spec, meta: &t.ObjectMeta}
	root := x.from(path)
	x.templateMetadata(root, t)
	spec := root.child("spec")
	x.all(spec)
	if len(x.spec.EphemeralContainers) > 0 {
		x.forbidden(spec.child("ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
	return x.errs
}

var (
	specPath        = field.NewPath("spec")
	annotationsPath = field.NewPath("metadata", "annotations")
)

// examiner validates one spec.
type examiner struct {
	findings
	opt  Options
	spec *corev1.PodSpec
	meta *metav1.ObjectMeta
	// pod says that the spec is that of a pod and not of a template.
	pod bool
	// volumes are the volumes without errors, to which mounts may refer.
	volumes []*corev1.Volume
	claims  seen[string]
}

func (x *examiner) all(p fieldPath) {
	x.everyVolume(p)
	x.resourceClaims(p)
	x.containers(p)
	x.initContainers(p)
	x.ephemeralContainers(p)
	x.podResources(p)
	x.hostNetwork(p)
	x.restartPolicy(p)
	x.dnsPolicy(p)
	x.labels(p, "nodeSelector", x.spec.NodeSelector)
	x.podSecurity(p)
	x.affinity(p)
	x.dnsConfig(p)
	x.gates(p)
	x.spread(p)
	x.hostProcesses(p)
	x.hostUsers(p)
	x.hostnameOverride(p)
	x.identity(p)
	if n := x.spec.ActiveDeadlineSeconds; n != nil && (*n < 1 || *n > math.MaxInt32) {
		x.invalid(p.child("activeDeadlineSeconds"), *n, validation.InclusiveRangeError(1, math.MaxInt32))
	}
	x.hostnames(p)
	x.tolerations(p)
	x.hostAliases(p)
	x.classes(p)
	x.system(p)
	x.schedulingGroup(p)
	x.evictionResponders(p)
}

func (x *examiner) labels(p fieldPath, name string, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	c := p.child(name)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		x.invalidAll(c, key, qualifiedName(key))
		x.invalidAll(c, labels[key], labelValue(labels[key]))
	}
}

func (x *examiner) restartPolicy(p fieldPath) {
	c := p.child("restartPolicy")
	if x.spec.RestartPolicy == "" {
		x.required(c, "")
		return
	}
	oneOf(&x.findings, c, x.spec.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
}

func (x *examiner) identity(p fieldPath) {
	if name := x.spec.ServiceAccountName; name != "" {
		x.invalidAll(p.child("serviceAccountName"), name, subdomain(name))
	}
	if name := x.spec.NodeName; name != "" {
		x.invalidAll(p.child("nodeName"), name, subdomain(name))
	}
}

func (x *examiner) hostnames(p fieldPath) {
	if name := x.spec.Hostname; name != "" {
		x.invalidAll(p.child("hostname"), name, label(name))
	}
	if name := x.spec.Subdomain; name != "" {
		x.invalidAll(p.child("subdomain"), name, label(name))
	}
}

func (x *examiner) hostnameOverride(p fieldPath) {
	name := x.spec.HostnameOverride
	if name == nil {
		return
	}
	c := p.child("hostnameOverride")
	if x.spec.SetHostnameAsFQDN != nil && *x.spec.SetHostnameAsFQDN {
		x.forbidden(c, "may not be specified when setHostnameAsFQDN is true")
	}
	if x.spec.HostNetwork {
		x.forbidden(c, "may not be specified when hostNetwork is true")
	}
	if len(*name) > hostnameMax {
		x.errs = append(x.errs, field.TooLong(x.path(c), *name, hostnameMax))
	}
	x.invalidAll(c, *name, subdomain(*name))
}

// hostnameMax is Linux's limit.
const hostnameMax = 64

func (x *examiner) classes(p fieldPath) {
	if name := x.spec.PriorityClassName; name != "" {
		x.invalidAll(p.child("priorityClassName"), name, subdomain(name))
	}
	if name := x.spec.RuntimeClassName; name != nil {
		x.invalidAll(p.child("runtimeClassName"), *name, subdomain(*name))
	}
	if policy := x.spec.PreemptionPolicy; policy != nil {
		c := p.child("preemptionPolicy")
		if *policy == "" {
			x.required(c, "")
		} else {
			oneOf(&x.findings, c, *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)
		}
	}
	if x.spec.Overhead != nil {
		x.requirements(p.child("overhead"), &corev1.ResourceRequirements{Limits: x.spec.Overhead}, false)
	}
}

// onlyForPods applies the rules that templates need not satisfy.
func (x *examiner) onlyForPods(p fieldPath) {
	s := x.spec
	if s.ServiceAccountName == "" {
		volumes := p.child("volumes")
		for i := range s.Volumes {
			if s.Volumes[i].Projected != nil {
				x.tokensWithoutAccount(volumes.item(i), s.Volumes[i].Projected)
			}
		}
	}
	x.imagesWithoutSpace(p, "containers", s.Containers)
	x.imagesWithoutSpace(p, "initContainers", s.InitContainers)
	for i := range s.EphemeralContainers {
		x.imageWithoutSpace(p, "ephemeralContainers", i, s.EphemeralContainers[i].Image)
	}
}

// ValidateCreate applies the rules that only new pods must satisfy.
func ValidateCreate(p *corev1.Pod) field.ErrorList {
	var f findings
	root := f.from(specPath)
	if len(p.Spec.EphemeralContainers) > 0 {
		f.forbidden(root.child("ephemeralContainers"), "cannot be set on create")
	}
	if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
		f.forbidden(root.child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	}
	return f.errs
}

func (x *examiner) tokensWithoutAccount(p fieldPath, v *corev1.ProjectedVolumeSource) {
	projected := p.child("projected")
	sources := projected.child("sources")
	for i := range v.Sources {
		if v.Sources[i].ServiceAccountToken != nil {
			source := sources.item(i)
			x.forbidden(source.child("serviceAccountToken"), "must not be specified when serviceAccountName is not set")
		}
	}
}

func (x *examiner) imagesWithoutSpace(p fieldPath, name string, containers []corev1.Container) {
	for i := range containers {
		x.imageWithoutSpace(p, name, i, containers[i].Image)
	}
}

func (x *examiner) imageWithoutSpace(p fieldPath, name string, i int, image string) {
	if len(image) == len(strings.TrimSpace(image)) {
		return
	}
	list := p.child(name)
	container := list.item(i)
	x.invalid(container.child("image"), image, "must not have leading or trailing whitespace")
}
