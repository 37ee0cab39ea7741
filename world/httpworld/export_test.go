package httpworld

// CheckOnly is [Check] for the check with a name.
var CheckOnly = checkNamed
