/** Whether S3 and CloudFront serve this page for a deployment in AWS. Otherwise the embedded server does. */
export const isCloud =
  document.querySelector<HTMLMetaElement>('meta[name="pilothouse-profile"]')?.content === 'aws'
