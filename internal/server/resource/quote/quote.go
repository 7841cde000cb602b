// Package quote formats values in error messages as Kubernetes does. Its API server validates internal types, which
// have no JSON names, and so it formats values with the Go names of their fields.
//
// The result is for reading, and is never decoded.
package quote

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Value is a value that is formatted when an error is written.
type Value struct{ of any }

// Of wraps a value of the API.
func Of(v any) Value { return Value{v} }

// MarshalJSON writes structs of the API with the Go names of all their fields.
func (v Value) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, reflect.ValueOf(v.of))
	return b.Bytes(), err
}

const api = "k8s.io/api/"

func write(b *bytes.Buffer, v reflect.Value) error {
	if !v.IsValid() {
		b.WriteString("null")
		return nil
	}
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return write(b, v.Elem())
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().PkgPath(), api):
		return writeStruct(b, v)
	case v.Kind() == reflect.Slice && !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8:
		return writeList(b, v)
	}
	text, err := json.Marshal(v.Interface())
	b.Write(text)
	return err
}

func writeList(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := write(b, v.Index(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeStruct(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('{')
	if err := writeFields(b, fieldsOf(v)); err != nil {
		return err
	}
	b.WriteByte('}')
	return nil
}

type named struct {
	name     string
	value    reflect.Value
	embedded bool
}

func writeFields(b *bytes.Buffer, fields []named) error {
	for _, f := range fields {
		switch {
		case f.embedded && strings.HasPrefix(f.value.Type().PkgPath(), api):
			if err := writeFields(b, fieldsOf(f.value)); err != nil {
				return err
			}
		case f.embedded: // metadata keeps its JSON names
			text, err := json.Marshal(f.value.Interface())
			if err != nil {
				return err
			}
			if inside := text[1 : len(text)-1]; len(inside) > 0 {
				separate(b)
				b.Write(inside)
			}
		default:
			separate(b)
			b.WriteString(`"` + f.name + `":`)
			if err := write(b, f.value); err != nil {
				return err
			}
		}
	}
	return nil
}

func separate(b *bytes.Buffer) {
	if t := b.Bytes(); t[len(t)-1] != '{' {
		b.WriteByte(',')
	}
}

// fieldsOf returns a struct's fields in the order of Kubernetes' internal types.
func fieldsOf(v reflect.Value) []named {
	switch o := v.Interface().(type) {
	case corev1.PodSpec:
		return podSpec(&o)
	case corev1.PersistentVolumeSource:
		return inOrder(v, persistentSourceOrder)
	case corev1.VolumeSource:
		return inOrder(v, volumeSourceOrder)
	}
	out := make([]named, 0, v.NumField())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		out = append(out, named{f.Name, v.Field(i), f.Anonymous})
	}
	return out
}

var volumeSourceOrder = []string{
	"HostPath", "EmptyDir", "GCEPersistentDisk", "AWSElasticBlockStore", "GitRepo", "Secret", "NFS", "ISCSI", "Glusterfs",
	"PersistentVolumeClaim", "RBD", "Quobyte", "FlexVolume", "Cinder", "CephFS", "Flocker", "DownwardAPI", "FC", "AzureFile",
	"ConfigMap", "VsphereVolume", "AzureDisk", "PhotonPersistentDisk", "Projected", "PortworxVolume", "ScaleIO", "StorageOS",
	"CSI", "Ephemeral", "Image",
}

var persistentSourceOrder = []string{
	"GCEPersistentDisk", "AWSElasticBlockStore", "HostPath", "Glusterfs", "NFS", "RBD", "Quobyte", "ISCSI", "FlexVolume", "Cinder",
	"CephFS", "FC", "Flocker", "AzureFile", "VsphereVolume", "AzureDisk", "PhotonPersistentDisk", "PortworxVolume", "ScaleIO",
	"Local", "StorageOS", "CSI",
}

func inOrder(v reflect.Value, names []string) []named {
	out := make([]named, 0, len(names))
	for _, name := range names {
		out = append(out, named{name: name, value: v.FieldByName(name)})
	}
	return out
}

var podSpecOrder = []string{
	"Volumes", "InitContainers", "Containers", "EphemeralContainers", "RestartPolicy", "TerminationGracePeriodSeconds",
	"ActiveDeadlineSeconds", "DNSPolicy", "NodeSelector", "ServiceAccountName", "AutomountServiceAccountToken", "NodeName",
	"SecurityContext", "ImagePullSecrets", "Hostname", "Subdomain", "SetHostnameAsFQDN", "Affinity", "SchedulerName",
	"Tolerations", "HostAliases", "PriorityClassName", "Priority", "PreemptionPolicy", "DNSConfig", "ReadinessGates",
	"RuntimeClassName", "Overhead", "EnableServiceLinks", "TopologySpreadConstraints", "OS", "SchedulingGates",
	"ResourceClaims", "Resources", "HostnameOverride", "SchedulingGroup", "EvictionResponders",
}

// podSecurity is a pod's security context as an internal type, which contains fields that the API has in the pod's
// spec.
type podSecurity struct {
	HostNetwork, HostPID, HostIPC    bool
	ShareProcessNamespace, HostUsers *bool
	*corev1.PodSecurityContext
}

func podSpec(s *corev1.PodSpec) []named {
	v := reflect.ValueOf(s).Elem()
	var out []named
	for _, name := range podSpecOrder {
		f := named{name: name, value: v.FieldByName(name)}
		if name == "SecurityContext" && s.SecurityContext != nil {
			f.value = reflect.ValueOf(security{podSecurity{
				s.HostNetwork, s.HostPID, s.HostIPC, s.ShareProcessNamespace, s.HostUsers, s.SecurityContext,
			}})
		}
		out = append(out, f)
	}
	return out
}

// security writes a podSecurity like any struct of the API.
type security struct{ of podSecurity }

func (s security) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	v := reflect.ValueOf(s.of)
	var fields []named
	for i := range v.NumField() - 1 {
		fields = append(fields, named{name: v.Type().Field(i).Name, value: v.Field(i)})
	}
	fields = append(fields, fieldsOf(reflect.ValueOf(*s.of.PodSecurityContext))...)
	if err := writeFields(&b, fields); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
