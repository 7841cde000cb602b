package certificates

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkRequest(r *request) field.ErrorList       { return nil }
func checkUpdate(r, old *request) field.ErrorList   { return nil }
func checkStatus(r, old *request) field.ErrorList   { return nil }
func checkApproval(r, old *request) field.ErrorList { return nil }
