package check

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Label wants a DNS label.
func Label(value string, path *field.Path) field.ErrorList {
	return Invalid(path, value, validation.IsDNS1123Label(value))
}

// Subdomain wants a DNS subdomain.
func Subdomain(value string, path *field.Path) field.ErrorList {
	return Invalid(path, value, validation.IsDNS1123Subdomain(value))
}

// PathSegment wants of a name, or of what one is made of, no more than that it can be a part of a path.
func PathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// Qualified wants a name that may have a domain before a slash.
func Qualified(value string, path *field.Path) field.ErrorList {
	return Invalid(path, value, validation.IsQualifiedName(value))
}

// Port wants the number of a port.
func Port(n int32, path *field.Path) field.ErrorList {
	if n >= 1 && n <= 65535 {
		return nil
	}
	return Invalid(path, n, validation.IsValidPortNum(int(n)))
}

// PortOrName wants the number of a port, or a name of one.
func PortOrName(p intstr.IntOrString, path *field.Path) field.ErrorList {
	if p.Type == intstr.Int {
		return Port(p.IntVal, path)
	}
	return Invalid(path, p.StrVal, validation.IsValidPortName(p.StrVal))
}

// maxDriverName is how long the name of a storage driver may be.
const maxDriverName = 63

// DriverName wants the name of a storage driver: a domain, in which upper case is let pass.
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
