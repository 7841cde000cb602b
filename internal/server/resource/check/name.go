package check

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Label requires a DNS label.
func Label(value string, path *field.Path) field.ErrorList {
	return Invalid(path, value, validation.IsDNS1123Label(value))
}

// Subdomain requires a DNS subdomain.
func Subdomain(value string, path *field.Path) field.ErrorList {
	return Invalid(path, value, validation.IsDNS1123Subdomain(value))
}

// PathSegment requires only that a name, or the prefix of one, can be a segment of a path.
func PathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// Qualified requires a name with an optional domain before a slash.
func Qualified(value string, path *field.Path) field.ErrorList {
	return Invalid(path, value, validation.IsQualifiedName(value))
}

// Port requires a port number.
func Port(n int32, path *field.Path) field.ErrorList {
	if n >= 1 && n <= 65535 {
		return nil
	}
	return Invalid(path, n, validation.IsValidPortNum(int(n)))
}

// PortOrName requires a port number or a port name.
func PortOrName(p intstr.IntOrString, path *field.Path) field.ErrorList {
	if p.Type == intstr.Int {
		return Port(p.IntVal, path)
	}
	return Invalid(path, p.StrVal, validation.IsValidPortName(p.StrVal))
}

// maxDriverName is the longest name of a CSI driver.
const maxDriverName = 63

// DriverName requires the name of a CSI driver: a domain, which may contain upper-case letters.
func DriverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > maxDriverName {
		errs = append(errs, field.TooLong(path, name, maxDriverName))
	}
	return append(errs, Invalid(path, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}
