// The token of this tab: kept until the tab is closed or the user signs out, and never in a URL.
const KEY = "purgatory-token";

export const session = {
  access: null, // what the token may do: {client, rights, sees_all}

  get token() {
    return sessionStorage.getItem(KEY) ?? "";
  },

  begin(token) {
    sessionStorage.setItem(KEY, token);
  },

  end() {
    sessionStorage.removeItem(KEY);
    this.access = null;
  },

  may(right) {
    return this.access !== null && this.access.rights.includes(right);
  },
};
