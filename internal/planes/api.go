package planes

import (
	_ "embed"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// The names of the kind.
const (
	Group    = "planes.millrace.dev"
	Version  = "v1alpha1"
	Kind     = "ControlPlane"
	Resource = "controlplanes"
)

// GVK is the kind, and GVR its resource.
var (
	GVK = schema.GroupVersionKind{Group: Group, Version: Version, Kind: Kind}
	GVR = GVK.GroupVersion().WithResource(Resource)
)

// Namespace has the kubeconfigs of all planes, and SecretKey is where they are in their Secrets, as in those of Cluster
// API.
const (
	Namespace = "millrace-planes"
	SecretKey = "value"
)

// SecretName returns the name of the Secret with a plane's kubeconfig.
func SecretName(plane string) string { return plane + "-kubeconfig" }

// SleepAnnotation asks for sleep: a plane sleeps as soon as it can after the annotation has changed.
const SleepAnnotation = Group + "/sleep"

//go:embed controlplane.yaml
var definition []byte

// Definition returns the definition of the kind.
func Definition() *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(definition, d); err != nil {
		panic(fmt.Sprintf("planes: the definition cannot be read: %v", err))
	}
	return d
}

// ControlPlane is a cluster that its host runs.
type ControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Spec says how the plane is to be. Its fields are described in controlplane.yaml.
type Spec struct {
	From         *Origin          `json:"from,omitempty"`
	Nodes        *int             `json:"nodes,omitempty"`
	Paused       bool             `json:"paused,omitempty"`
	Outward      *bool            `json:"outward,omitempty"`
	SleepAfter   *metav1.Duration `json:"sleepAfter,omitempty"`
	ExpiresAfter *metav1.Duration `json:"expiresAfter,omitempty"`
	Limits       Limits           `json:"limits,omitempty"`
}

// Origin is the plane that another begins as, at a moment.
type Origin struct {
	Name string `json:"name"`
	At   string `json:"at,omitempty"`
}

// Limits bound what a plane uses. Zero is the default, or no limit.
type Limits struct {
	Requests int                `json:"requests,omitempty"`
	Objects  int                `json:"objects,omitempty"`
	Bytes    *resource.Quantity `json:"bytes,omitempty"`
}

// The phases of a plane.
const (
	Awake  = "Awake"
	Asleep = "Asleep"
	Failed = "Failed"
)

// Status says how the plane is.
type Status struct {
	Phase      string `json:"phase,omitempty"`
	Endpoint   string `json:"endpoint,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Revision is that of the plane from which this one was forked.
	Revision int64 `json:"revision,omitempty"`
	// WakesAt is when a loop of the sleeping plane has something to do.
	WakesAt *metav1.Time `json:"wakesAt,omitempty"`
	Objects int          `json:"objects,omitempty"`
	Bytes   int64        `json:"bytes,omitempty"`
	// Slept is the value of SleepAnnotation that was heard.
	Slept      string             `json:"slept,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (c *ControlPlane) DeepCopyObject() runtime.Object {
	out := &ControlPlane{TypeMeta: c.TypeMeta, Spec: c.Spec, Status: c.Status}
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), c.Status.Conditions...)
	return out // what the spec points to is never changed
}

// usualSleep is after how long without a request a plane sleeps, if its object does not say.
const usualSleep = 5 * time.Minute

// settings returns how the plane is to be run.
func (c *ControlPlane) settings() Settings {
	s := Settings{
		Name: c.Name, Nodes: 1, Paused: c.Spec.Paused, Outward: c.Spec.From == nil, SleepAfter: usualSleep,
		Requests: c.Spec.Limits.Requests, Objects: c.Spec.Limits.Objects,
	}
	if n := c.Spec.Nodes; n != nil {
		s.Nodes = *n
	}
	if o := c.Spec.Outward; o != nil {
		s.Outward = *o
	}
	if d := c.Spec.SleepAfter; d != nil {
		s.SleepAfter = d.Duration
	}
	if b := c.Spec.Limits.Bytes; b != nil {
		s.Bytes = b.Value()
	}
	return s
}

// expires returns when the plane is to be deleted, or the zero time.
func (c *ControlPlane) expires() time.Time {
	if d := c.Spec.ExpiresAfter; d != nil && d.Duration > 0 {
		return c.CreationTimestamp.Add(d.Duration)
	}
	return time.Time{}
}
