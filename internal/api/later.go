package api

func (a *API) addAgents()    {}
func (a *API) addJobs()      {}
func (a *API) addPlans()     {}
func (a *API) addAttempts()  {}
func (a *API) addRequests()  {}
func (a *API) addArtifacts() {}
func (a *API) addTokens()    {}
